/** Transactions of Knex: the work is given Knex's own `Transaction`. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a Knex instance that are used here. */
export interface KnexShape<Tx> {
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

export interface KnexTransaction {
  raw(text: string): PromiseLike<unknown>;
}

/** `guard.transaction(request, knexDatabase(knex), (tx) => …)`. `knex` must use the database of the store. */
export function knexDatabase<Tx>(knex: KnexShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: knex,
    transact: (body) => knex.transaction((tx) => body(tx, runKnex(tx as KnexTransaction))),
  };
}

export function runKnex(tx: KnexTransaction): RunText {
  return async (statement) => firstText(await tx.raw(plainText(statement)));
}
