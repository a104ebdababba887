/**
 * The statements of the D1 store, on the tables of the SQLite store. Each step is one batch, which D1 runs as one transaction:
 * a conditional write, and then the record as it is, with the database's clock. Every write leaves a new mark in the row, so
 * that the record that follows tells whether the write was made.
 */
import {
  ALL_COLUMNS,
  MIGRATIONS,
  NAMESPACES,
  purgeBy,
  ROW_COLUMNS,
  selectRows,
  undecidedBy,
} from "./sqlite-sql.ts";

export { LIST_INDEX } from "./sqlite-sql.ts";

const [TABLES = "", PURGE_INDEX = ""] = MIGRATIONS;

/** As those of the SQLite store, but with their own numbers. A released migration is never changed. */
export const D1_MIGRATIONS: readonly string[] = [
  TABLES,
  PURGE_INDEX,
  `ALTER TABLE nevertwice_records ADD COLUMN steps TEXT;
   ALTER TABLE nevertwice_records ADD COLUMN history TEXT;
   ALTER TABLE nevertwice_records ADD COLUMN mark TEXT NOT NULL DEFAULT '';`,
];

export const VERSION = D1_MIGRATIONS.length;

export const READ_VERSION = "SELECT schema_version FROM nevertwice_store";
export const HAS_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'nevertwice_store'";

/** D1's own clock, in milliseconds. SQLite answers the same time everywhere in one statement. */
export const DATABASE_CLOCK = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/** No statement writes to tables of another version: a later one may mean something else. */
const IS_OURS = `(SELECT schema_version FROM nevertwice_store) = ${VERSION}`;

const WRITTEN_COLUMNS = [...ALL_COLUMNS, "steps", "history", "mark"];

const placeholders = (count: number) => Array.from({ length: count }, () => "?").join(", ");

/** How much later than its retention a new record is purged: see `purgeTime` of the SQLite store. */
const PURGE_AFTER = "CAST(kept_until + retention_ms / 32 AS INTEGER)";

/** As core/kept-history.ts writes it: SQLite reads the number in front of a note as the note. */
function renewedHistory(now: string): string {
  const line =
    "iif(substr(history, 1, length(?2) + 1) = ?2 || char(10), substr(history, length(?2) + 2), '')";
  const entries = `substr(${line}, instr(${line} || ';', ';'))`;
  return `?2 || char(10) || ' ' || (CAST(${line} AS INTEGER) + 1) || ' ' || CAST(${now} AS INTEGER) || ${entries}`;
}

/** `now` is the SQL of the clock. */
export function createStatements(now: string) {
  const renewed = renewedHistory(now);
  const isKept = `(hold <> 0 OR kept_until > ${now})`;
  return {
    /**
     * Bound to the id. One row, also without a record: now, the version, the last fence, and the mark and the columns of
     * the record.
     */
    find: `SELECT ${now} AS now, store.schema_version, store.last_fence, record.mark, ${ROW_COLUMNS.map((column) => `record.${column} AS ${column}`).join(", ")}
      FROM (SELECT 1) LEFT JOIN nevertwice_store AS store LEFT JOIN nevertwice_records AS record ON record.id = ?`,

    /**
     * Inserts the first attempt of a record that does not exist. Bound to 1 id, 2 token, 3 lease, 4 retention, 5 hold,
     * 6 fingerprint, 7 parts, 8 mark.
     */
    insertNew: `INSERT INTO nevertwice_records (id, ${WRITTEN_COLUMNS.join(", ")})
      SELECT ?1, iif(?5, NULL, CAST(now + ?3 + ?4 + ?4 / 32 AS INTEGER)), now, 'pending', ?2, 0, max(last_fence + 1, now * 1000), 1, ?5, 0,
        ?3, now + ?3, ?4, now + ?3 + ?4, NULL, ?6, ?7, NULL, NULL, NULL, ?8
      FROM (SELECT last_fence, ${now} AS now FROM nevertwice_store WHERE schema_version = ${VERSION})
      WHERE NOT EXISTS (SELECT 1 FROM nevertwice_records WHERE id = ?1)`,

    /** Bound to 1 id and 2 mark. Keeps the highest fence of all records, if the record is the one just written. */
    keepFence: `UPDATE nevertwice_store SET last_fence = (SELECT fence FROM nevertwice_records WHERE id = ?1)
      WHERE last_fence < (SELECT fence FROM nevertwice_records WHERE id = ?1 AND mark = ?2)`,

    /** Bound to the columns and, last, to the id again. */
    insert: `INSERT INTO nevertwice_records (id, ${WRITTEN_COLUMNS.join(", ")}) SELECT ?, ${placeholders(WRITTEN_COLUMNS.length)}
      WHERE ${IS_OURS} AND NOT EXISTS (SELECT 1 FROM nevertwice_records WHERE id = ?)`,

    /** Bound to the columns, the id, and the mark of the record that it replaces. */
    update: `UPDATE nevertwice_records SET ${WRITTEN_COLUMNS.map((column) => `${column} = ?`).join(", ")}
      WHERE id = ? AND mark = ? AND ${IS_OURS}`,

    /** Bound to 1 id and 2 mark. The fence of a new attempt is higher than every other. */
    raiseFence: `UPDATE nevertwice_records SET fence = (SELECT last_fence + 1 FROM nevertwice_store)
      WHERE id = ?1 AND mark = ?2 AND fence <= (SELECT last_fence FROM nevertwice_store)`,

    /** Bound to the id and the mark. */
    remove: `DELETE FROM nevertwice_records WHERE id = ? AND mark = ? AND ${IS_OURS}`,

    /** `completeRecord` of core/record.ts for a pending record. Bound to 1 id, 2 token, 3 outcome, 4 retention, 5 mark. */
    complete: `UPDATE nevertwice_records SET state = 'completed', retention_ms = ?4, kept_until = ${now} + ?4, completed_at = ${now},
        outcome = ?3, steps = NULL, mark = ?5
      WHERE id = ?1 AND token = ?2 AND state = 'pending' AND ${isKept} AND ${IS_OURS}`,

    /** `renewRecord` of core/record.ts. Bound to 1 id, 2 token, 3 lease, 4 mark. */
    renew: `UPDATE nevertwice_records SET lease_ms = ?3, lease_ends_at = ${now} + ?3, kept_until = ${now} + ?3 + retention_ms,
        history = ${renewed}, mark = ?4
      WHERE id = ?1 AND token = ?2 AND state = 'pending' AND spent = 0 AND ${isKept} AND ${IS_OURS}`,

    /** Bound to the id and the mark. Moves the record in the index of purges only if it is too far from its place. */
    movePurge: `UPDATE nevertwice_records SET purge_at = ${PURGE_AFTER}
      WHERE id = ? AND mark = ? AND NOT (state = 'pending' AND hold <> 0)
        AND ifnull(purge_at NOT BETWEEN kept_until AND kept_until + retention_ms / 16, TRUE)`,

    /** Bound to the limit. */
    purge: purgeBy(now),

    scan: { all: selectRows("all"), key: selectRows("key") },
    undecided: undecidedBy(now),
    namespaces: NAMESPACES,
    clock: `SELECT ${now} AS now`,
  };
}
