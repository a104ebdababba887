/** Transactions of Drizzle on Postgres or MySQL: the work is given Drizzle's own transaction. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a Drizzle database that are used here. */
export interface DrizzleShape<Tx> {
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

export interface DrizzleTransaction {
  execute(text: string): Promise<unknown>;
}

/** `guard.transaction(request, drizzleDatabase(db), (tx) => …)`. `db` must use the database of the store. */
export function drizzleDatabase<Tx>(db: DrizzleShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: db,
    transact: (body) => db.transaction((tx) => body(tx, runDrizzle(tx as DrizzleTransaction))),
  };
}

export function runDrizzle(tx: DrizzleTransaction): RunText {
  return async (statement) => firstText(await tx.execute(plainText(statement)));
}
