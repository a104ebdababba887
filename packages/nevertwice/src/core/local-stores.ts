/** Whether this environment refuses stores that live and end with one process or machine: production does, unless it is told otherwise. */
import { readSwitch } from "./switch.ts";

/**
 * Whether a store that only this process or machine can reach is refused: in production, unless it is allowed. `env` is
 * `process.env`. Throws `options-invalid` if `NEVERTWICE_ALLOW_LOCAL` is no switch.
 * @throws `options-invalid`
 */
export function refusesLocalStores(env: Readonly<Record<string, string | undefined>>): boolean {
  const [mode, allowed] = [env.NODE_ENV, env.NEVERTWICE_ALLOW_LOCAL].map((text) => text?.trim());
  const isAllowed = !!allowed && readSwitch("NEVERTWICE_ALLOW_LOCAL", allowed);
  return mode === "production" && !isAllowed;
}
