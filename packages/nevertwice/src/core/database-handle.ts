/**
 * The types of what an application hands in as its database: its own pool, connection or query builder. They are described
 * by the members that are used, since no driver is a dependency. `transaction/recognition.ts` recognises the same at run time.
 */
import type { RunText } from "./store-transactions.ts";

/** What an adapter of `nevertwice/transaction/…` returns. */
interface AdaptedHandle<Tx> {
  readonly source: object;
  transact(body: (tx: Tx, run: RunText) => Promise<void>, limits: never): Promise<unknown>;
}

/** A `pg` Pool. */
interface PgHandle<Client> {
  readonly connect: {
    (): Promise<Client>;
    (callback: never): unknown;
  };
  readonly totalCount: number;
}

/** The `sql` of postgres.js. */
interface PostgresJsHandle<Sql> {
  unsafe(text: string): PromiseLike<unknown>;
  begin(options: string, work: (sql: Sql) => unknown): Promise<unknown>;
}

/** A pool of mysql2/promise. */
interface MysqlHandle<Connection> {
  getConnection(): Promise<Connection>;
}

/** An open connection of `node:sqlite`, `@photostructure/sqlite` or better-sqlite3. */
export interface SqliteConnection {
  exec(text: string): unknown;
  prepare(text: string): unknown;
}

/** What `guard.transaction` and `attempt.step` accept as their database. */
export type DatabaseHandle =
  // biome-ignore lint/suspicious/noExplicitAny: the type of the transaction is inferred from the handle.
  AdaptedHandle<any> | PgHandle<unknown> | PostgresJsHandle<any> | MysqlHandle<unknown> | SqliteConnection;

/** The transaction that the work is given for a handle: the driver's own object with its own type. */
export type TransactionOf<Handle> =
  Handle extends AdaptedHandle<infer Tx>
    ? Tx
    : Handle extends PgHandle<infer Client>
      ? Client
      : Handle extends { begin(options: string, work: (sql: infer Sql) => unknown): unknown }
        ? Sql
        : Handle extends MysqlHandle<infer Connection>
          ? Connection
          : Handle;
