/**
 * The guard of this app. Next makes several bundles and processes out of one app, so what they share has to be a store
 * outside of them: a file here, Postgres or Redis where there is more than one machine. Nothing is opened at build time.
 */
import { createGuard } from "nevertwice";
import { sqliteStore } from "nevertwice/stores/sqlite";

export const guard = createGuard({
  store: sqliteStore({ file: process.env.NEVERTWICE_FILE ?? "./nevertwice.db" }),
  namespace: "shop",
});

const CUSTOMERS = new Map([
  ["Bearer alice-secret", "alice"],
  ["Bearer bob-secret", "bob"],
]);

/** Whose key it is: whoever the request authenticates. Nobody is no answer, and refused. */
export function customerOf(request: Request): string | undefined {
  return CUSTOMERS.get(request.headers.get("authorization") ?? "");
}
