/**
 * What we need of a SQLite connection, typed by shape: `DatabaseSync` of `node:sqlite` and of `@photostructure/sqlite`,
 * and better-sqlite3. What they do differently ends here.
 */
import { ROLLBACK } from "./session-sql.ts";

export type SqlValue = string | number | Uint8Array | null;

export interface SqliteStatement {
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  /** `DatabaseSync`'s ways of asking for rows as arrays and for plain numbers … */
  setReturnArrays?(isOn: boolean): unknown;
  setReadBigInts?(isOn: boolean): unknown;
  /** … and better-sqlite3's. */
  raw?(isOn: boolean): unknown;
  safeIntegers?(isOn: boolean): unknown;
}

/** A connection of the caller's own. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

/** One that we opened. */
export interface OwnDatabase extends SqliteDatabase {
  close(): void;
}

export type Row = readonly unknown[];

export interface Query {
  first(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): readonly Row[];
}

/** A prepared statement that answers rows as arrays of plain numbers and texts, however the connection is set up. */
export function prepareQuery(database: SqliteDatabase, sql: string): Query {
  const statement = database.prepare(sql);
  statement.setReadBigInts?.(false);
  statement.safeIntegers?.(false);
  if (statement.setReturnArrays !== undefined) statement.setReturnArrays(true);
  else statement.raw?.(true);
  return {
    first(...values) {
      const row = statement.get(...values);
      return row === undefined ? undefined : toArray(row);
    },
    all: (...values) => statement.all(...values).map(toArray),
  };
}

/** Older versions know objects only; their members are in the order of the columns. */
function toArray(row: unknown): Row {
  return Array.isArray(row) ? row : Object.values(row as object);
}

/** The first column of the first row. */
export function lookUp(database: SqliteDatabase, sql: string): unknown {
  return prepareQuery(database, sql).first()?.[0];
}

/** Also where SQLite has already rolled back by itself. */
export function rollBack(database: SqliteDatabase): void {
  try {
    database.exec(ROLLBACK);
  } catch {
    // There is no transaction left to end.
  }
}
