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

/** The members of a `pg` Pool that are used. `Client` is the type of its connections. */
export interface PgPoolShape<Client = unknown> {
  readonly connect: {
    (): Promise<Client>;
    (callback: never): unknown;
  };
  readonly totalCount: number;
}

/** The members of the `sql` of postgres.js that are used. `Transaction` is the `sql` inside `begin`. */
// biome-ignore lint/suspicious/noExplicitAny: a sql of any types has this shape.
export interface PostgresJsShape<Transaction = any> {
  unsafe(text: string, values?: string[], options?: { prepare?: boolean }): PromiseLike<unknown>;
  begin(options: string, work: (sql: Transaction) => unknown): Promise<unknown>;
}

/** The members of a pool of mysql2/promise that are used. `Connection` is the type of its connections. */
export interface MysqlPoolShape<Connection = unknown> {
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
  AdaptedHandle<any> | PgPoolShape | PostgresJsShape | MysqlPoolShape | SqliteConnection;

/** The transaction that the work is given for a handle: the driver's own object with its own type. */
export type TransactionOf<Handle> =
  Handle extends AdaptedHandle<infer Tx>
    ? Tx
    : Handle extends PgPoolShape<infer Client>
      ? Client
      : Handle extends { begin(options: string, work: (sql: infer Sql) => unknown): unknown }
        ? Sql
        : Handle extends MysqlPoolShape<infer Connection>
          ? Connection
          : Handle;
