/** Transactions of Kysely: the work is given Kysely's own `Transaction`. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a `Kysely` that are used here. */
export interface KyselyShape<Tx> {
  transaction(): { execute(work: (tx: Tx) => Promise<unknown>): Promise<unknown> };
}

/** The part of a transaction of Kysely that is used here. */
export interface KyselyTransaction {
  executeQuery(query: object): Promise<unknown>;
}

/**
 * `guard.transaction(request, kyselyDatabase(db), (tx) => …)`. The dialect of `db` must be that of the store.
 * @example
 * ```ts server
 * import { Kysely, PostgresDialect } from "kysely";
 * import pg from "pg";
 * import { createGuard } from "nevertwice";
 * import { postgresStore } from "nevertwice/stores/postgres";
 * import { kyselyDatabase } from "nevertwice/transaction/kysely";
 *
 * interface Tables {
 *   orders: { id: string; paid: boolean };
 * }
 * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
 * const guard = createGuard({ store: postgresStore({ client: pool }) });
 * const database = kyselyDatabase(new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }));
 * await guard.transaction({ operation: "pay", key: "order-17" }, database, async (tx) => {
 *   await tx.updateTable("orders").set({ paid: true }).where("id", "=", "order-17").execute();
 * });
 * ```
 */
export function kyselyDatabase<Tx>(db: KyselyShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: db,
    transact: (body) => db.transaction().execute((tx) => body(tx, runKysely(tx as KyselyTransaction))),
  };
}

/** Runs statements in a transaction of Kysely that you have open, for `once` and for an outbox. */
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
