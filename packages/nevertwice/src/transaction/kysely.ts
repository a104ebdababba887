/** Transactions of Kysely: the work is given Kysely's own `Transaction`. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a `Kysely` that are used here. */
export interface KyselyShape<Tx> {
  transaction(): { execute(work: (tx: Tx) => Promise<unknown>): Promise<unknown> };
}

export interface KyselyTransaction {
  executeQuery(query: object): Promise<unknown>;
}

/** `guard.transaction(request, kyselyDatabase(db), (tx) => …)`. The dialect of `db` must be that of the store. */
export function kyselyDatabase<Tx>(db: KyselyShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: db,
    transact: (body) => db.transaction().execute((tx) => body(tx, runKysely(tx as KyselyTransaction))),
  };
}

export function runKysely(tx: KyselyTransaction): RunText {
  return async (statement) => firstText(await tx.executeQuery(toCompiledQuery(plainText(statement))));
}

/** What `CompiledQuery.raw` of Kysely returns. */
function toCompiledQuery(sql: string): object {
  return {
    sql,
    parameters: [],
    query: { kind: "RawNode", sqlFragments: [sql], parameters: [] },
    queryId: { queryId: "nevertwice" },
  };
}
