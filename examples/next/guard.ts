/**
 * The guard of this app. Next builds several bundles and processes from one app, so they need a shared store outside of
 * them: a file here, Postgres or Redis on more than one machine. Nothing is opened at build time.
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

/** The owner of a key: the authenticated caller. A request without one is refused. */
export function customerOf(request: Request): string | undefined {
  return CUSTOMERS.get(request.headers.get("authorization") ?? "");
}
