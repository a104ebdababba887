/** Transactions of Drizzle on Postgres or MySQL: the work is given Drizzle's own transaction. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a Drizzle database that are used here. */
export interface DrizzleShape<Tx> {
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

/** The part of a transaction of Drizzle that is used here. */
export interface DrizzleTransaction {
  execute(text: string): Promise<unknown>;
}

/**
 * `guard.transaction(request, drizzleDatabase(db), (tx) => …)`. `db` must use the database of the store.
 * @example
 * ```ts server
 * import { drizzle } from "drizzle-orm/node-postgres";
 * import pg from "pg";
 * import { createGuard } from "nevertwice";
 * import { postgresStore } from "nevertwice/stores/postgres";
 * import { drizzleDatabase } from "nevertwice/transaction/drizzle";
 *
 * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
 * const guard = createGuard({ store: postgresStore({ client: pool }) });
 * const database = drizzleDatabase(drizzle(pool));
 * await guard.transaction({ operation: "pay", key: "order-17" }, database, async (tx) => {
 *   await tx.execute("UPDATE orders SET paid = true WHERE id = 'order-17'");
 * });
 * ```
 */
export function drizzleDatabase<Tx>(db: DrizzleShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: db,
    transact: (body) => db.transaction((tx) => body(tx, runDrizzle(tx as DrizzleTransaction))),
  };
}

/** Runs statements in a transaction of Drizzle that you have open, for `once` and for an outbox. */
export function runDrizzle(tx: DrizzleTransaction): RunText {
  return async (statement) => firstText(await tx.execute(plainText(statement)));
}
