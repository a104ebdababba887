/** What is said to any SQLite connection, whatever tables are in it: transactions, settings, and what it is. */

/** Takes no lock: a transaction that only reads never waits for a writer, and its COMMIT flushes nothing. */
export const BEGIN = "BEGIN";
/** Takes the write lock, and waits for it as long as the connection was told to. */
export const BEGIN_WRITING = "BEGIN IMMEDIATE";
export const COMMIT = "COMMIT";
export const ROLLBACK = "ROLLBACK";

export const VERSION = "SELECT sqlite_version()";
export const JOURNAL_MODE = "PRAGMA journal_mode";
export const SYNCHRONOUS = "PRAGMA synchronous";
export const FULL_FSYNC = "PRAGMA fullfsync";
export const LOCKING_MODE = "PRAGMA locking_mode";
export const DATABASE_LIST = "PRAGMA database_list";

/** Must be set before the file is first read; then nobody else can open it. */
export const LOCK_FOR_ONE = "PRAGMA locking_mode = EXCLUSIVE";
export const USE_WAL = "PRAGMA journal_mode = WAL";

/**
 * `fullfsync` means something on macOS alone, where a plain fsync leaves the data in the drive's cache. A checkpoint
 * copies the log back with flushes of its own: every 4,000 pages (16 MiB) rather than 1,000 makes it cheaper, since pages
 * written many times are copied once. After a burst the log shrinks again.
 */
export function settle(synchronous: "full" | "normal"): string {
  return `PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"};
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -16000;`;
}

/** We wait by ourselves. */
export const WAIT_FOR_NO_LOCK = "PRAGMA busy_timeout = 0";
