/** Transactions of Knex: the work is given Knex's own `Transaction`. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a Knex instance that are used here. */
export interface KnexShape<Tx> {
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

/** The part of a transaction of Knex that is used here. */
export interface KnexTransaction {
  raw(text: string): PromiseLike<unknown>;
}

/**
 * `guard.transaction(request, knexDatabase(knex), (tx) => …)`. `knex` must use the database of the store.
 * @example
 * ```ts server
 * import knex from "knex";
 * import { createGuard } from "nevertwice";
 * import { openStore } from "nevertwice/stores/open";
 * import { knexDatabase } from "nevertwice/transaction/knex";
 *
 * const url = "postgres://localhost/shop";
 * const guard = createGuard({ store: await openStore(url) });
 * const database = knexDatabase(knex({ client: "pg", connection: url }));
 * await guard.transaction({ operation: "pay", key: "order-17" }, database, async (tx) => {
 *   await tx("orders").where({ id: "order-17" }).update({ paid: true });
 * });
 * ```
 */
export function knexDatabase<Tx>(knex: KnexShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: knex,
    transact: (body) => knex.transaction((tx) => body(tx, runKnex(tx as KnexTransaction))),
  };
}

/** Runs statements in a transaction of Knex that you have open, for `once` and for an outbox. */
export function runKnex(tx: KnexTransaction): RunText {
  return async (statement) => firstText(await tx.raw(plainText(statement)));
}
