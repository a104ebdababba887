/**
 * The statements of the SQLite store. core/record.ts decides whether a step is allowed, between the read and the write of
 * one transaction, so no statement here contains the rules. The one exception: the purge tests the deadline again.
 * Placeholders are plain question marks, because better-sqlite3 treats numbered ones as names.
 */

import * as sound from "./sound-sql.ts";
import type { SqliteSchema } from "./sqlite/schema.ts";

/**
 * The columns of a record, in the order in which they are read and written. `parts` and `outcome` are last: SQLite reads a
 * row from its start, so the columns in front of a large outcome are cheap to read.
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

/**
 * Added without a new version of the schema, so that a release that does not know it can use the file at the same time. Few
 * records have steps, so only KEEP_STEPS writes the column.
 */
const STEPS = "steps";

const ALL_COLUMNS = ["purge_at", ...COLUMNS];
/** Without `parts`, which only `forget` changes, and `purge_at`, whose change also rewrites an index. */
const USUAL_COLUMNS = COLUMNS.filter((column) => column !== "parts");

/**
 * The migrations: a file of version n has had the first n applied. A released migration is never changed. Each runs in the
 * transaction that writes its number.
 */
export const MIGRATIONS: readonly string[] = [
  // `id` has no type, so that SQLite converts neither a digest (32 bytes) nor any other id (text). Digests are random:
  // a table in order of arrival with a narrow index touches far fewer pages than a table sorted by id.
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

/** The version is in a table and not in `user_version`, because the file may belong to the application. */
export const SCHEMA: SqliteSchema = {
  table: "nevertwice_store",
  migrations: MIGRATIONS,
  additions: { nevertwice_records: [[STEPS, "TEXT"]] },
  columns: {
    nevertwice_records: ["id", "purge_at", ...COLUMNS],
    nevertwice_store: ["schema_version", "last_fence"],
  },
};

/** The row of one id: its rowid, when it may be purged, and its columns. */
export const FIND = `SELECT rowid, purge_at, ${[...COLUMNS, STEPS].join(", ")} FROM nevertwice_records WHERE id = ?`;

/**
 * Bound to an id. The same row, if it is completed and its outcome is not larger. `octet_length` is stored at the start of a
 * row, so an outcome that is too large is not read.
 */
export const findCompleted = (maxBytes: number) =>
  `${FIND} AND state = 'completed' AND octet_length(outcome) <= ${maxBytes}`;

export const INSERT = `INSERT INTO nevertwice_records (id, ${ALL_COLUMNS.join(", ")}) VALUES (?, ${ALL_COLUMNS.map(() => "?").join(", ")})`;

/** Changes every column except `parts` and `purge_at`, so no index is touched. */
export const UPDATE = `UPDATE nevertwice_records SET ${USUAL_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

/** What a completion changes. */
export const COMPLETE =
  "UPDATE nevertwice_records SET state = ?, retention_ms = ?, kept_until = ?, completed_at = ?, outcome = ? WHERE rowid = ?";

export const UPDATE_ALL = `UPDATE nevertwice_records SET ${ALL_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

export const KEEP_STEPS = `UPDATE nevertwice_records SET ${STEPS} = ? WHERE rowid = ?`;

export const REMOVE = "DELETE FROM nevertwice_records WHERE rowid = ?";

export const LAST_FENCE = "SELECT last_fence FROM nevertwice_store";
export const KEEP_FENCE = "UPDATE nevertwice_store SET last_fence = ?";

/** Whether a row is one that sqlite/records.ts can read. SQLite accepts any type in any column, so types are tested too. */
const isWhole = (column: string) => `typeof(${column}) = 'integer' AND ${sound.isCount(column)}`;
const isTime = (column: string) =>
  `typeof(${column}) IN ('integer', 'real') AND ${sound.isTime(column, Number.MAX_SAFE_INTEGER)}`;
const isTextOrNull = (column: string) => `typeof(${column}) IN ('text', 'null')`;

const IS_SOUND = `(${[
  sound.IS_STATE,
  `typeof(token) = 'text' AND ${sound.IS_TOKEN}`,
  ...["spent", "hold", "took_over"].map(sound.isFlag),
  ...["fence", "number"].map(isWhole),
  ...["claimed_at", "lease_ms", "lease_ends_at", "retention_ms", "kept_until"].map(isTime),
  `${sound.isOfCompletion("completed_at")} AND (completed_at IS NULL OR ${isTime("completed_at")})`,
  sound.isOfCompletion("outcome"),
  sound.IS_KEPT_LONG_ENOUGH,
  ...["fingerprint", "parts", "outcome", STEPS].map(isTextOrNull),
  sound.ARE_PARTS,
  // Drivers cannot return a row that contains a larger number.
  `purge_at BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}`,
].join(" AND ")})`;

/**
 * Bound to now. Returns a row if a purge would find something; run before the write lock is requested. A damaged record is
 * never purged: without it, its work would look as if it had never run.
 */
export const HAS_EXPIRED = `SELECT 1 FROM nevertwice_records WHERE purge_at <= ? AND ${IS_SOUND} LIMIT 1`;

/**
 * Bound to now, the limit, and now again. Removes at most `limit` expired rows. `purge_at` is never earlier than
 * `kept_until`, and NULL in a held pending row, so the index skips it. The deadline is tested again on the row itself.
 */
export const PURGE = `DELETE FROM nevertwice_records
  WHERE rowid IN (SELECT rowid FROM nevertwice_records WHERE purge_at <= ? AND ${IS_SOUND} ORDER BY purge_at LIMIT ?)
    AND kept_until <= ? AND NOT (state = 'pending' AND hold <> 0)`;

/** Whether there is an outcome is stored at the start of a row; the outcome itself may be pages away. */
const HAS_OUTCOME = "CASE WHEN outcome IS NULL THEN NULL ELSE '' END";

/** Bound to an id and a limit. Returns the next rows in the order of their ids, without outcomes and steps, for the caller to filter. */
export const SCAN = `SELECT id, rowid, purge_at, ${COLUMNS.map((column) => (column === "outcome" ? HAS_OUTCOME : column)).join(", ")}, NULL
  FROM (SELECT rowid AS place FROM nevertwice_records WHERE id > ? ORDER BY id LIMIT ?)
  JOIN nevertwice_records ON nevertwice_records.rowid = place ORDER BY id`;

/** Bound like SCAN. Returns only the ids of the same rows. */
export const SCAN_IDS = "SELECT id FROM nevertwice_records WHERE id > ? ORDER BY id LIMIT ?";

/** Returns 1 while waiters for this id must keep waiting. 0, or no row: they should claim again. */
export const IS_PENDING = "SELECT state = 'pending' AND spent = 0 FROM nevertwice_records WHERE id = ?";

/** Changes when another connection commits, but not with our own commits. */
export const DATA_VERSION = "PRAGMA data_version";
