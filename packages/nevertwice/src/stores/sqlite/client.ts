/**
 * How SQLite is handed in and called. A caller gives either a file, which the store opens in a worker thread, or an open
 * connection. Connections are typed by shape: `DatabaseSync` of `node:sqlite` and of `@photostructure/sqlite`, and
 * better-sqlite3. The differences between these drivers are handled here and nowhere else.
 */
import type { Clock } from "../../core/clock.ts";
import { isBusy } from "./errors.ts";

/** Options of a store that opens its file itself, in a worker thread. */
export interface SqliteFileOptions {
  /**
   * Path of the database file. Its folder must exist; the file is created if it does not. The first call opens it, and
   * fails if it cannot be opened. Other processes may use any SQLite library on the same file. This process must use only
   * one copy of the library: two copies in one process do not see each other's locks.
   */
  readonly file: string;
  /**
   * `full` (default): an answered call survives a power loss. `normal`: a power loss may lose the last commits; a crash of
   * the process loses none.
   * @default "full"
   */
  readonly synchronous?: "full" | "normal";
  /**
   * Lock other processes out of the file. Needed with SQLite below 3.51.3. Default false.
   * @default false
   */
  readonly exclusive?: boolean;
}

/** Options of a store on a connection that the application has opened. */
export interface SqliteDatabaseOptions {
  /** An open connection: `DatabaseSync` of `node:sqlite` or `@photostructure/sqlite`, or better-sqlite3. */
  readonly database: SqliteDatabase;
  /** Decides when leases and retention end; default: the system clock. All processes that share the file need the same. */
  readonly clock?: Clock;
}

/** A value that SQLite keeps. */
export type SqlValue = string | number | Uint8Array | null;

/** The part of a prepared statement that is used here. */
export interface SqliteStatement {
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
  run(...values: SqlValue[]): {
    readonly changes: number | bigint;
    readonly lastInsertRowid?: number | bigint;
  };
  /** `DatabaseSync`: return rows as arrays. */
  setReturnArrays?(isOn: boolean): unknown;
  /** `DatabaseSync`: return integers as bigints. */
  setReadBigInts?(isOn: boolean): unknown;
  /** better-sqlite3: return rows as arrays. */
  raw?(isOn: boolean): unknown;
  /** better-sqlite3: return integers as bigints. */
  safeIntegers?(isOn: boolean): unknown;
}

/** The part of an open connection that is used here. The connection belongs to the caller. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

/** A connection that the store opened, and closes. */
export interface OwnDatabase extends SqliteDatabase {
  close(): void;
}

/** `SqliteFileOptions` with its defaults filled in; sent to the worker thread. */
export interface FileSettings {
  readonly file: string;
  readonly synchronous: "full" | "normal";
  readonly exclusive: boolean;
}

export type SqliteRow = readonly unknown[];

export interface SqliteQuery {
  first(...values: SqlValue[]): SqliteRow | undefined;
  all(...values: SqlValue[]): readonly SqliteRow[];
}

/**
 * A prepared statement that returns rows as arrays of plain numbers and strings, whatever the connection's own settings
 * are. With `hasBigInts`, integers are bigints, so that one integer beyond 2^53 does not make the whole query fail.
 */
export function prepareQuery(database: SqliteDatabase, sql: string, hasBigInts = false): SqliteQuery {
  const statement = database.prepare(sql);
  statement.setReadBigInts?.(hasBigInts);
  statement.safeIntegers?.(hasBigInts);
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

/** Older drivers return objects only. Their members are in the order of the columns. */
function toArray(row: unknown): SqliteRow {
  return Array.isArray(row) ? row : Object.values(row as object);
}

/** The first column of the first row. */
export function lookUp(database: SqliteDatabase, sql: string): unknown {
  return prepareQuery(database, sql).first()?.[0];
}

/** Takes no lock: a transaction that only reads never waits for a writer, and its COMMIT flushes nothing. */
export const BEGIN = "BEGIN";
/** Takes the write lock. Waits for it as long as the connection's busy timeout says. */
export const BEGIN_WRITING = "BEGIN IMMEDIATE";
export const COMMIT = "COMMIT";

/** Does nothing if SQLite has already rolled the transaction back itself. */
export function rollBack(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // No transaction is open.
  }
}

/** A setting of `cache_size`: 16 MB for the pages of a file. SQLite's default is 2 MB. */
export const CACHE_SIZE = -16_000;

/**
 * The settings of a file that the store opens, in addition to WAL mode. `fullfsync` matters only on macOS, where a plain
 * fsync leaves the data in the drive's cache. A checkpoint copies the log back into the file, with its own flushes. One
 * checkpoint every 4,000 pages (16 MiB) instead of 1,000 costs less in total, because a page that was written many times is
 * copied once. After a burst of writes the log shrinks to its size limit.
 */
export function filePragmas(synchronous: FileSettings["synchronous"]): string {
  return `PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"};
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = ${CACHE_SIZE};`;
}

/** Less than the engine's default timeout for a call, so that the caller gets the reason and not only a timeout. */
const LOCK_WAIT_MS = 4_000;
const RETRY_MS = 1;

/**
 * Retries every millisecond while another connection holds the lock. Blocks its thread: for worker threads only.
 *
 * SQLite's own busy handler waits longer after each attempt. A busy process leaves the lock free for less than a
 * millisecond between two commits, so that handler would miss most of these moments.
 */
export function retryWhileLocked<Result>(attempt: () => Result): Result {
  const until = performance.now() + LOCK_WAIT_MS;
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
