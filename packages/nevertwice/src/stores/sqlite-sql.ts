/**
 * Every statement of the SQLite store. Whether a step is allowed is decided by core/record.ts, between the read and the
 * write of one transaction: no statement here knows the rules, except that purge repeats the deadline it removes by.
 * Values are bound by plain question marks, since better-sqlite3 takes a numbered one for a name.
 */
import type { Schema } from "./sqlite/schema.ts";

/**
 * The columns of a record, in the order in which they are read and written. `parts` and `outcome` come last: a row is
 * read from its start, so what lies in front of a large outcome costs nothing to reach.
 */
const COLUMNS = [
  "state",
  "token",
  "spent",
  "fence",
  "number",
  "hold",
  "took_over",
  "claimed_at",
  "lease_ms",
  "lease_ends_at",
  "retention_ms",
  "kept_until",
  "completed_at",
  "fingerprint",
  "parts",
  "outcome",
] as const;

/** Changed seldom, each for a reason of its own: `parts` by forget, `purge_at` because that rewrites its index. */
const WHOLE = ["purge_at", ...COLUMNS];
const USUAL = COLUMNS.filter((column) => column !== "parts");

/**
 * The schema, step by step: a file of version n has had the first n steps. A step is never edited, only followed by
 * another, and each runs in the transaction that writes its number.
 */
export const MIGRATIONS: readonly string[] = [
  // `id` has no type, so that both a digest (32 bytes) and any other id (text) stay what they are. A digest is random:
  // a table of rows in order of arrival with a narrow index beside it touches far fewer pages than one sorted by id.
  `CREATE TABLE nevertwice_records (
     id NOT NULL,
     purge_at INTEGER,
     state TEXT NOT NULL,
     token TEXT NOT NULL,
     spent INTEGER NOT NULL,
     fence INTEGER NOT NULL,
     number INTEGER NOT NULL,
     hold INTEGER NOT NULL,
     took_over INTEGER NOT NULL,
     claimed_at INTEGER NOT NULL,
     lease_ms INTEGER NOT NULL,
     lease_ends_at INTEGER NOT NULL,
     retention_ms INTEGER NOT NULL,
     kept_until INTEGER NOT NULL,
     completed_at INTEGER,
     fingerprint TEXT,
     parts TEXT,
     outcome TEXT
   );
   CREATE UNIQUE INDEX nevertwice_records_by_id ON nevertwice_records (id);
   CREATE TABLE nevertwice_store (schema_version INTEGER NOT NULL, last_fence INTEGER NOT NULL);
   INSERT INTO nevertwice_store VALUES (0, 0);`,
  "CREATE INDEX nevertwice_records_by_purge_at ON nevertwice_records (purge_at);",
];

/** A table of ours, not `user_version`: that belongs to whoever owns the file, and the file may be the application's. */
export const SCHEMA: Schema = { table: "nevertwice_store", migrations: MIGRATIONS };

/** The row of one id: where it is, when it may be purged, and its columns. */
export const FIND = `SELECT rowid, purge_at, ${COLUMNS.join(", ")} FROM nevertwice_records WHERE id = ?`;

export const INSERT = `INSERT INTO nevertwice_records (id, ${WHOLE.join(", ")}) VALUES (?, ${WHOLE.map(() => "?").join(", ")})`;

/** Changes everything but `parts` and `purge_at`, so no index is touched. */
export const UPDATE = `UPDATE nevertwice_records SET ${USUAL.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

export const UPDATE_WHOLE = `UPDATE nevertwice_records SET ${WHOLE.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

export const REMOVE = "DELETE FROM nevertwice_records WHERE rowid = ?";

export const LAST_FENCE = "SELECT last_fence FROM nevertwice_store";
export const KEEP_FENCE = "UPDATE nevertwice_store SET last_fence = ?";

/** Whether anything may be purged by now (?): a look before the write lock is asked for. */
export const HAS_EXPIRED = "SELECT 1 FROM nevertwice_records WHERE purge_at <= ? LIMIT 1";

/**
 * Bound to now, the limit, and now again: removes at most so many rows that are past their time. `purge_at` is never before
 * `kept_until`, and a held pending row has none: it is not even looked at. The deadline is tested again on the row itself.
 */
export const PURGE = `DELETE FROM nevertwice_records
  WHERE rowid IN (SELECT rowid FROM nevertwice_records WHERE purge_at <= ? ORDER BY purge_at LIMIT ?)
    AND kept_until <= ? AND NOT (state = 'pending' AND hold = 1)`;

/** The next rows after an id, at most so many, by id and without their outcomes. Read to be filtered, in bites. */
export const SCAN = `SELECT id, rowid, purge_at, ${COLUMNS.map((column) => (column === "outcome" ? "NULL" : column)).join(", ")}
  FROM (SELECT rowid AS place FROM nevertwice_records WHERE id > ? ORDER BY id LIMIT ?)
  JOIN nevertwice_records ON nevertwice_records.rowid = place ORDER BY id`;

/** Whether somebody who waits for this id should ask again: no row means yes. */
export const IS_PENDING = "SELECT state = 'pending' AND spent = 0 FROM nevertwice_records WHERE id = ?";

/** Moves when another connection has committed, and not by our own commits. */
export const DATA_VERSION = "PRAGMA data_version";
