/**
 * Records in one Cloudflare D1 database, for guards in a Worker. Each step is one batch, which D1 runs as one transaction on
 * its primary, and D1's own clock decides when leases and retention end. Nothing is shared between the requests of a Worker,
 * so a guard may be created once, at module level. Waiters poll.
 */
import { type BindingSource, bindingFinder } from "./binding-source.ts";
import { type D1Database, isDatabase, notBound } from "./d1/bindings.ts";
import { createBatchRunner } from "./d1/database.ts";
import { migrationScript } from "./d1/schema.ts";
import { createD1Store, type D1Store } from "./d1/store.ts";
import { DATABASE_CLOCK } from "./d1-sql.ts";

export type { BindingSource } from "./binding-source.ts";
export type { D1Database } from "./d1/bindings.ts";
export type { D1Store } from "./d1/store.ts";

/** Every statement that `migrate` runs on an empty database, for `wrangler d1 migrations`. */
export function migrationSql(): string {
  return migrationScript();
}

/**
 * Keeps records in D1. `database` is the binding, or a function that returns it. Needs its tables: call `await store.migrate()` once, or apply
 * `migrationSql()`.
 * @example
 * ```ts server
 * import { env } from "cloudflare:workers";
 * import { createGuard } from "nevertwice";
 * import { d1Store } from "nevertwice/stores/d1";
 *
 * export const guard = createGuard({ store: d1Store(env.DB) });
 * ```
 */
export function d1Store(database: BindingSource<D1Database>): D1Store {
  return createD1Store(createBatchRunner(bindingFinder(database, isDatabase, notBound)), DATABASE_CLOCK);
}
