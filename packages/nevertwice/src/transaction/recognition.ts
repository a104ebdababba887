/** Recognises by its members what the application hands in as its database. */
import type { SqliteConnection } from "../core/database-handle.ts";
import { NevertwiceError } from "../core/errors.ts";
import type { TransactionDatabase } from "./database.ts";
import { isMysqlPool, mysqlDatabase } from "./mysql2.ts";
import { isPgPool, pgDatabase } from "./pg.ts";
import { isPostgresJs, type PostgresJsShape, postgresJsDatabase } from "./postgres-js.ts";
import { isConnection } from "./sqlite.ts";

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
