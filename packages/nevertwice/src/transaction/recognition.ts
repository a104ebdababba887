/** Recognises by its members what the application hands in as its database. */
import { NevertwiceError } from "../core/errors.ts";
import type { TransactionDatabase } from "./database.ts";
import { isMysqlPool, type MysqlPoolShape, mysqlDatabase } from "./mysql2.ts";
import { isPgPool, type PgPoolShape, pgDatabase } from "./pg.ts";
import { isPostgresJs, type PostgresJsShape, postgresJsDatabase } from "./postgres-js.ts";
import { isConnection, type SqliteConnection } from "./sqlite.ts";

/** What `guard.transaction` accepts as its database. */
export type DatabaseHandle =
  // biome-ignore lint/suspicious/noExplicitAny: the type of the transaction is inferred from the handle.
  TransactionDatabase<any> | PgPoolShape | PostgresJsShape | MysqlPoolShape | SqliteConnection;

/** The transaction that the work is given for a handle: the driver's own object with its own type. */
export type TransactionOf<Handle> =
  Handle extends TransactionDatabase<infer Tx>
    ? Tx
    : Handle extends PgPoolShape<infer Client>
      ? Client
      : Handle extends { begin(options: string, work: (sql: infer Sql) => unknown): unknown }
        ? Sql
        : Handle extends MysqlPoolShape<infer Connection>
          ? Connection
          : Handle;

/** Throws `options-invalid` for anything else. */
export function toDatabase(handle: unknown): TransactionDatabase<unknown> | SqliteConnection {
  if (isAdapted(handle)) return handle;
  if (isPostgresJs(handle)) return postgresJsDatabase(handle as PostgresJsShape<unknown>);
  if (isPgPool(handle)) return pgDatabase(handle);
  if (isMysqlPool(handle)) return mysqlDatabase(handle);
  if (isConnection(handle)) return handle;
  throw new NevertwiceError(
    "options-invalid",
    "the database must be a pg Pool, the sql of postgres.js, a pool of mysql2/promise, the SQLite connection of the store, or what an adapter of nevertwice/transaction/… returns.",
  );
}

function isAdapted(handle: unknown): handle is TransactionDatabase<unknown> {
  const { transact, source } = (handle ?? {}) as Partial<TransactionDatabase<unknown>>;
  return typeof transact === "function" && source !== undefined;
}
