/**
 * The statements of the SQLite store. core/record.ts decides whether a step is allowed, between the read and the write of
 * one transaction, so no statement here contains the rules. The one exception: the purge tests the deadline again.
 * Placeholders are plain question marks, because better-sqlite3 treats numbered ones as names.
 */

import * as sound from "./sound-sql.ts";
import type { SqliteSchema } from "./sqlite/schema.ts";

/**
 * The columns of a record, in the order in which they are read and written. In the table `parts` and `outcome` are last:
 * SQLite reads a row from its start, so the columns in front of a large outcome are cheap to read.
 */
const COLUMNS = [
  "claimed_at",
  "state",
  "token",
  "spent",
  "fence",
  "number",
  "hold",
  "took_over",
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
/** Added likewise. The first claim and a completion leave it unchanged, so only KEEP_HISTORY writes it. */
const HISTORY = "history";

export const ALL_COLUMNS = ["purge_at", ...COLUMNS];
/** Without `purge_at`, `claimed_at` and `parts`, whose change also rewrites an index. */
const USUAL_COLUMNS = COLUMNS.filter((column) => column !== "claimed_at" && column !== "parts");

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

/** `namespaceStart` of core/parts.ts. */
const NAMESPACE = `substr(parts, 1, instr(parts, '","'))`;

/** Where a record is in a list. A damaged time counts as some time, so that the record is listed. */
const PLACE = `min(max(CAST(claimed_at AS INTEGER), 0), ${Number.MAX_SAFE_INTEGER})`;

/** For lists: only what a claim sets, so that no other step writes to it. */
export const LIST_INDEX = `CREATE INDEX IF NOT EXISTS nevertwice_records_by_claim ON nevertwice_records (${NAMESPACE}, ${PLACE})`;

/** The version is in a table and not in `user_version`, because the file may belong to the application. */
export const SCHEMA: SqliteSchema = {
  table: "nevertwice_store",
  migrations: MIGRATIONS,
  additions: {
    nevertwice_records: [
      [STEPS, "TEXT"],
      [HISTORY, "TEXT"],
    ],
  },
  indexes: { nevertwice_records_by_claim: LIST_INDEX },
  columns: {
    nevertwice_records: ["id", "purge_at", ...COLUMNS],
    nevertwice_store: ["schema_version", "last_fence"],
  },
};

/** What is read of a row: its rowid, when it may be purged, and its columns. */
export const ROW_COLUMNS = ["rowid", "purge_at", ...COLUMNS, STEPS, HISTORY];

/** The row of one id. */
export const FIND = `SELECT ${ROW_COLUMNS.join(", ")} FROM nevertwice_records WHERE id = ?`;

/**
 * Bound to an id. The same row, if it is completed and its outcome is not larger. `octet_length` is stored at the start of a
 * row, so an outcome that is too large is not read.
 */
export const findCompleted = (maxBytes: number) =>
  `${FIND} AND state = 'completed' AND octet_length(outcome) <= ${maxBytes}`;

export const INSERT = `INSERT INTO nevertwice_records (id, ${ALL_COLUMNS.join(", ")}) VALUES (?, ${ALL_COLUMNS.map(() => "?").join(", ")})`;

/** For a change that touches no index. */
export const UPDATE = `UPDATE nevertwice_records SET ${USUAL_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

/** What a completion changes. */
export const COMPLETE =
  "UPDATE nevertwice_records SET state = ?, retention_ms = ?, kept_until = ?, completed_at = ?, outcome = ? WHERE rowid = ?";

export const UPDATE_ALL = `UPDATE nevertwice_records SET ${ALL_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE rowid = ?`;

export const KEEP_STEPS = `UPDATE nevertwice_records SET ${STEPS} = ? WHERE rowid = ?`;

export const KEEP_HISTORY = `UPDATE nevertwice_records SET ${HISTORY} = ? WHERE rowid = ?`;

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
  ...["fingerprint", "parts", "outcome", STEPS, HISTORY].map(isTextOrNull),
  sound.ARE_PARTS,
  // Drivers cannot return a row that contains a larger number. The plus hides the column from the planner, which would search
  // the index for this range and read every record that may be purged at some time.
  `+purge_at BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}`,
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
export const PURGE = purgeBy("?");

/** The purge by another expression for now, which is then not bound. */
export function purgeBy(now: string): string {
  return `DELETE FROM nevertwice_records
    WHERE rowid IN (SELECT rowid FROM nevertwice_records WHERE purge_at <= ${now} AND ${IS_SOUND} ORDER BY purge_at LIMIT ?)
      AND kept_until <= ${now} AND NOT (state = 'pending' AND hold <> 0)`;
}

/** Bound to now. When the next row can be purged. Rows that a purge has left are damaged, and are not looked at again. */
export const NEXT_PURGE = "SELECT min(purge_at) FROM nevertwice_records WHERE purge_at > ?";

/** Whether there is an outcome is stored at the start of a row; the outcome itself may be pages away. */
const HAS_OUTCOME = "CASE WHEN outcome IS NULL THEN NULL ELSE '' END";

/** Bound to this: the beginning of the parts, a time, the time again, an id, and a limit. Newest claims first. */
const NEXT = `FROM nevertwice_records
    WHERE ${NAMESPACE} = ? AND ${PLACE} <= ? AND (${PLACE} < ? OR id < ?)
    ORDER BY ${PLACE} DESC, id DESC LIMIT ?`;

/**
 * An index of keys would make a claim a fifth slower. SQL compares the ends of the parts instead, which takes half a
 * microsecond for a record: a list of one key looks at so many rows at once.
 */
export const KEY_ROWS = 5_000;

/**
 * The rows of a list, as `row` and `place`: all of the next ones, or those with a key. Then the last of `KEY_ROWS` rows is
 * among them too, so that the caller knows where to go on; without any row, nothing is left.
 */
const WANTED = {
  all: `(SELECT rowid AS row, ${PLACE} AS place ${NEXT})`,
  key: `(WITH looked AS MATERIALIZED (
      SELECT rowid AS row, ${PLACE} AS place, id AS looked, substr(parts, -length(?)) = ? AS is_found ${NEXT}
    )
    SELECT row, place FROM looked WHERE is_found
    UNION SELECT row, place FROM (SELECT * FROM looked ORDER BY place, looked LIMIT 1)
      WHERE (SELECT count(*) FROM looked) = ${KEY_ROWS})`,
};

/** Which rows of a list are read. */
export type ListRows = keyof typeof WANTED;

const inOrder = (
  rows: ListRows,
) => `FROM ${WANTED[rows]} JOIN nevertwice_records ON nevertwice_records.rowid = row
  ORDER BY place DESC, id DESC LIMIT ${KEY_ROWS}`;

/**
 * Bound to the end of the parts twice, if rows with a key are wanted, and then like NEXT. Returns the next rows of a list with
 * their places, without outcomes, steps and history, for the caller to filter.
 */
export const selectRows = (rows: ListRows) =>
  `SELECT id, place, nevertwice_records.rowid, purge_at, ${COLUMNS.map((column) => (column === "outcome" ? HAS_OUTCOME : column)).join(", ")}, NULL, NULL
  ${inOrder(rows)}`;

/** Bound likewise. Returns only the ids and places of the same rows. */
export const selectIds = (rows: ListRows) => `SELECT id, place ${inOrder(rows)}`;

/** Sorts after every id. */
export const AFTER_ALL_IDS = new Uint8Array(33).fill(255);

/**
 * Bound to the time, how many rows to look at, and the beginning of the parts. Returns how many rows were looked at, how many
 * records are undecided, and when the oldest of them lapsed. No purge looks at held pending records, so their rows have no
 * `purge_at`, and the index of purges finds them.
 */
export const undecidedBy = (now: string) => `SELECT count(*),
    count(*) FILTER (WHERE is_undecided), min(min(lease_ends_at, now)) FILTER (WHERE is_undecided)
  FROM (
    SELECT *, ${NAMESPACE} = start AND state = 'pending' AND hold <> 0
      AND (spent <> 0 OR lease_ends_at <= now) AS is_undecided
    FROM (SELECT parts, state, hold, spent, lease_ends_at FROM nevertwice_records WHERE purge_at IS NULL LIMIT ?)
    JOIN (SELECT ${now} AS now, ? AS start)
  )`;

/**
 * Bound to now, now again, and how many rows to look at. Returns how many rows were looked at, how many of their records are
 * overdue for a purge, and since when the oldest of them is.
 */
export const OVERDUE = `SELECT count(*), count(*) FILTER (WHERE is_overdue), min(purge_at) FILTER (WHERE is_overdue)
  FROM (SELECT purge_at, ${IS_SOUND} AND kept_until <= ? AS is_overdue FROM (
    SELECT * FROM nevertwice_records WHERE purge_at <= ? ORDER BY purge_at LIMIT ?
  ))`;

/** Bound to the beginning of the parts of the last namespace, and a limit. Returns the beginnings of the next ones. */
export const NAMESPACES = `WITH RECURSIVE found (start) AS (
    SELECT (SELECT ${NAMESPACE} FROM nevertwice_records WHERE ${NAMESPACE} > ? ORDER BY ${NAMESPACE} LIMIT 1)
    UNION ALL
    SELECT (SELECT ${NAMESPACE} FROM nevertwice_records WHERE ${NAMESPACE} > start ORDER BY ${NAMESPACE} LIMIT 1)
    FROM found WHERE start IS NOT NULL LIMIT ?
  ) SELECT start FROM found WHERE start IS NOT NULL`;

/** Returns 1 while waiters for this id must keep waiting. 0, or no row: they should claim again. */
export const IS_PENDING = "SELECT state = 'pending' AND spent = 0 FROM nevertwice_records WHERE id = ?";

/** Changes when another connection commits, but not with our own commits. */
export const DATA_VERSION = "PRAGMA data_version";
