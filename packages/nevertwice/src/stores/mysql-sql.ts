/**
 * The statements and tables of the MySQL store, for both MySQL 8 and MariaDB. Times are microseconds since the epoch on the
 * server's clock.
 */

import { LAST_MICROSECOND } from "../core/checked-record.ts";
import type { Kept } from "../core/record.ts";
import type { RecordState } from "../core/store.ts";
import type { ListFilter } from "./listing.ts";
import { BOUNDED_SELECT } from "./mysql/bounded-select.ts";
import {
  bytes,
  IS_SHOWN_EARLY,
  MAX_SHORT_BYTES,
  NOW_US,
  STATEMENT_US,
  short,
  TABLE_OPTIONS,
  whole,
} from "./mysql/values.ts";
import * as sound from "./sound-sql.ts";

const micros = (ms: number) => whole(Math.round(ms * 1_000));
const flag = (value: boolean) => (value ? "1" : "0");

/** What the decision about a record was based on. A time that did not change is written again; a new one is relative to now. */
interface RecordBefore {
  readonly record: Kept | undefined;
  readonly now: number;
}

/** What a write needs to know besides the record: its new mark, and whether the tables have the columns that were added. */
interface RecordWrite {
  readonly mark: string;
  readonly isMigrated: boolean;
}

type TimeName = "claimedAt" | "leaseEndsAt" | "keptUntil" | "completedAt";

function timeValue(name: TimeName, after: Kept, { record, now }: RecordBefore): string {
  const time = after[name];
  if (time === undefined) return "NULL";
  return time === record?.[name] ? micros(time) : `${NOW_US} + ${micros(time - now)}`;
}

/** Each column except the id and the fence, with its new value. No value depends on another column. */
function assignments(
  after: Kept,
  before: RecordBefore,
  { mark, isMigrated }: RecordWrite,
): readonly (readonly [string, string])[] {
  return [
    ["mark", short(mark)],
    ["namespace", bytes(after.parts?.namespace)],
    ["scope", bytes(after.parts?.scope)],
    ["operation", bytes(after.parts?.operation)],
    ["`key`", bytes(after.parts?.key)],
    ["fingerprint", short(after.fingerprint)],
    ["state", `'${after.state}'`],
    ["token", short(after.token)],
    ["spent", flag(after.spent)],
    ["number", whole(after.number)],
    ["hold", flag(after.hold)],
    ["took_over", flag(after.tookOver)],
    ["claimed_at", timeValue("claimedAt", after, before)],
    ["lease_ms", whole(after.leaseMs)],
    ["lease_ends_at", timeValue("leaseEndsAt", after, before)],
    ["retention_ms", whole(after.retentionMs)],
    ["kept_until", timeValue("keptUntil", after, before)],
    ["completed_at", timeValue("completedAt", after, before)],
    ["outcome", bytes(after.outcome)],
    // Few records have steps, and tables that were not migrated yet have no column for them.
    ...(after.steps === before.record?.steps ? [] : [["steps", bytes(after.steps)] as const]),
    ...(after.history === before.record?.history || !isMigrated
      ? []
      : [["history", bytes(after.history)] as const]),
  ];
}

/**
 * Returns exactly one row: the record (NULLs if there is none), the server's clock, and the server settings that every read
 * depends on. The clock is from before the read: a record that is renewed during the read must not look lapsed. The settings
 * are read each time, because the server may have been demoted to a replica in the meantime.
 */
export function readSql(id: string): string {
  return (
    `SELECT r.*, ${STATEMENT_US} AS now_us, @@global.read_only AS is_read_only, ${IS_SHOWN_EARLY} AS is_shown_early ` +
    `FROM (SELECT 1) AS one LEFT JOIN nevertwice_records AS r ON r.id = ${short(id)}`
  );
}

/**
 * Makes a commit so that the log is flushed. It moves the end of the lease by a microsecond, which has no meaning in a
 * completed record; a statement that changes no value would commit nothing. Affects no row if the record is not completed.
 */
export function touchSql(id: string): string {
  return (
    "UPDATE nevertwice_records SET lease_ends_at = lease_ends_at + 1 " +
    `WHERE id = ${short(id)} AND state = 'completed'`
  );
}

/** Returns a row if this thread of the server is running this statement, compared by its first 1,000 characters. */
export function runningSql(thread: number, sql: string): string {
  const start = sql.slice(0, 1_000);
  return (
    `SELECT id FROM information_schema.processlist WHERE id = ${whole(thread)} ` +
    `AND LEFT(info, ${start.length}) = CONVERT(${bytes(start)} USING utf8mb4)`
  );
}

/** Ends the thread's statement, rolls it back, and closes its connection. */
export function killSql(thread: number): string {
  return `KILL ${whole(thread)}`;
}

/** Writes the first record of an id. Returns its fence as `insertId`; fails with errno 1062 if a record exists. */
export function insertSql(id: string, after: Kept, before: RecordBefore, write: RecordWrite): string {
  const columns = assignments(after, before, write);
  return (
    `INSERT INTO nevertwice_records (id, fence, ${columns.map(([name]) => name).join(", ")}) ` +
    `VALUES (${short(id)}, LAST_INSERT_ID(${NOW_US}), ${columns.map(([, value]) => value).join(", ")})`
  );
}

/**
 * Replaces the record if it still has the mark of `before`. Returns its fence as `insertId`, and 0 if no record has that
 * mark: LAST_INSERT_ID(…) is evaluated only for a row that is written. `affectedRows` is not used, because a flag of the
 * connection decides whether it counts matched or changed rows.
 */
export function updateSql(
  id: string,
  after: Kept,
  before: RecordBefore & { readonly mark: string },
  write: RecordWrite,
): string {
  const isNewAttempt = after.fence !== before.record?.fence;
  const fence = isNewAttempt ? `GREATEST(fence + 1, ${NOW_US})` : "fence";
  const columns = assignments(after, before, write).map(([name, value]) => `${name} = ${value}`);
  return (
    `UPDATE nevertwice_records SET fence = LAST_INSERT_ID(${fence}), ${columns.join(", ")} ` +
    `WHERE id = ${short(id)} AND mark = ${short(before.mark)}`
  );
}

/** Removes the record if it still has this mark. `affectedRows` is 1 then, and 0 otherwise, with every connection flag. */
export function deleteSql(id: string, mark: string): string {
  return `DELETE FROM nevertwice_records WHERE id = ${short(id)} AND mark = ${short(mark)}`;
}

const isTime = (column: string) => sound.isTime(column, LAST_MICROSECOND);
const isDuration = (column: string) => sound.isTime(column, Number.MAX_SAFE_INTEGER);
/** All parts, or none of them. */
const isNullWithNamespace = (column: string) => `(${column} IS NULL) = (namespace IS NULL)`;

/** Whether a row is one that mysql/values.ts can read. */
const IS_SOUND = `(${[
  sound.IS_STATE,
  sound.IS_TOKEN,
  ...["spent", "hold", "took_over"].map(sound.isFlag),
  ...["fence", "number"].map(sound.isCount),
  ...["claimed_at", "lease_ends_at", "kept_until"].map(isTime),
  ...["lease_ms", "retention_ms"].map(isDuration),
  sound.isCompletionTime("completed_at", LAST_MICROSECOND),
  sound.isOfCompletion("outcome"),
  sound.IS_KEPT_LONG_ENOUGH,
  ...["scope", "operation", "`key`"].map(isNullWithNamespace),
].join(" AND ")})`;

/**
 * Like `isExpired` in core/record.ts. A damaged record never expires: if it were purged, its work would look as if it had
 * never run.
 */
const isExpired = (now: string) =>
  `(kept_until <= ${now} AND NOT (state = 'pending' AND hold <> 0) AND ${IS_SOUND})`;

/** Returns the ids of records that expired at `from` or later, earliest first, with that time. Locks nothing. */
export function expiredSql(from: bigint, limit: number): string {
  return (
    `${BOUNDED_SELECT} id, kept_until FROM nevertwice_records WHERE kept_until >= ${from} AND ${isExpired(STATEMENT_US)} ` +
    `ORDER BY kept_until LIMIT ${whole(limit)}`
  );
}

/**
 * Removes those of these ids that are still expired; one may have been claimed again since it was read. It uses NOW_US,
 * which no index can serve: so rows are locked in the order of their ids, as everywhere else, which prevents deadlocks.
 */
export function purgeSql(ids: readonly string[]): string {
  return `DELETE FROM nevertwice_records WHERE id IN (${ids.map(short).join(", ")}) AND ${isExpired(NOW_US)}`;
}

/** Like `stateOf` in core/record.ts. */
const IS_LAPSED = `(spent = 1 OR lease_ends_at <= ${STATEMENT_US})`;
const IN_STATE: Readonly<Record<RecordState, string>> = {
  pending: `state = 'pending' AND NOT ${IS_LAPSED}`,
  lapsed: `state = 'pending' AND ${IS_LAPSED}`,
  completed: "state = 'completed'",
  released: "state = 'released'",
};

/**
 * Returns the ids and times of the next records of a list, newest claims first, and whether the list shows them. It looks at
 * `rows` of them, which an index finds by the namespace, or by namespace and scope, or by namespace and key.
 */
export function scanSql(
  { namespace, scope, operation, key, state }: Omit<ListFilter, "before">,
  {
    claimedAt,
    id,
    rows,
  }: { readonly claimedAt: bigint; readonly id: string | undefined; readonly rows: number },
): string {
  const place = [
    `namespace = ${bytes(namespace)}`,
    ...(key === undefined ? [] : [`\`key\` = ${bytes(key)}`]),
    ...(scope === undefined || key !== undefined ? [] : [`scope = ${bytes(scope)}`]),
    `claimed_at <= ${claimedAt}`,
    ...(id === undefined ? [] : [`(claimed_at < ${claimedAt} OR id < ${bytes(id)})`]),
  ];
  const shown = [
    `NOT ${isExpired(STATEMENT_US)}`,
    ...(scope === undefined ? [] : [`scope = ${bytes(scope)}`]),
    ...(operation === undefined ? [] : [`operation = ${bytes(operation)}`]),
    ...(state === undefined ? [] : [IN_STATE[state]]),
  ];
  return (
    `${BOUNDED_SELECT} id, claimed_at, (${shown.join(" AND ")}) AS is_shown FROM nevertwice_records ` +
    `WHERE ${place.join(" AND ")} ORDER BY claimed_at DESC, id DESC LIMIT ${whole(rows)}`
  );
}

/** Returns those of these records that have not expired, newest claims first. */
export function listSql(ids: readonly string[]): string {
  return (
    `${BOUNDED_SELECT} *, ${STATEMENT_US} AS now_us, ${IS_SHOWN_EARLY} AS is_shown_early FROM nevertwice_records ` +
    `WHERE id IN (${ids.map(bytes).join(", ")}) AND NOT ${isExpired(STATEMENT_US)} ORDER BY claimed_at DESC, id DESC`
  );
}

/** Looks at `rows` held records that have lapsed: returns how many, how many of the namespace, and since when. */
export function undecidedSql(namespace: string, rows: number): string {
  return (
    `${BOUNDED_SELECT} COUNT(*) AS seen, COUNT(IF(namespace = ${bytes(namespace)}, 1, NULL)) AS found, ` +
    `MIN(IF(namespace = ${bytes(namespace)}, held_until, NULL)) AS oldest FROM (` +
    `SELECT namespace, held_until FROM nevertwice_records WHERE held_until <= ${STATEMENT_US} ORDER BY held_until LIMIT ${whole(rows)}` +
    ") AS held"
  );
}

/** Looks at `rows` records whose time is over: returns how many, how many of them a purge would remove, and since when. */
export function overdueSql(rows: number): string {
  return (
    `${BOUNDED_SELECT} COUNT(*) AS seen, COUNT(IF(is_overdue, 1, NULL)) AS found, MIN(IF(is_overdue, kept_until, NULL)) AS oldest FROM (` +
    `SELECT kept_until, ${isExpired(STATEMENT_US)} AS is_overdue FROM nevertwice_records ` +
    `WHERE kept_until <= ${STATEMENT_US} ORDER BY kept_until LIMIT ${whole(rows)}) AS past`
  );
}

/** Returns the next namespaces, sorted by their bytes. */
export function namespacesSql(after: string | undefined, limit: number): string {
  const isNext = after === undefined ? "namespace IS NOT NULL" : `namespace > ${bytes(after)}`;
  return `${BOUNDED_SELECT} namespace FROM nevertwice_records WHERE ${isNext} GROUP BY namespace ORDER BY namespace LIMIT ${whole(limit)}`;
}

/** Text is stored as UTF-8 bytes: a collation would treat different keys as equal, and a character set lose characters. */
const RECORDS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_records (
  id VARBINARY(${MAX_SHORT_BYTES}) NOT NULL PRIMARY KEY,
  mark VARBINARY(${MAX_SHORT_BYTES}) NOT NULL,
  namespace VARBINARY(1024),
  scope VARBINARY(1024),
  operation VARBINARY(1024),
  \`key\` VARBINARY(1024),
  fingerprint VARBINARY(${MAX_SHORT_BYTES}),
  state ENUM('pending', 'completed', 'released') NOT NULL,
  token VARBINARY(${MAX_SHORT_BYTES}) NOT NULL,
  spent TINYINT NOT NULL,
  fence BIGINT NOT NULL,
  number BIGINT NOT NULL,
  hold TINYINT NOT NULL,
  took_over TINYINT NOT NULL,
  claimed_at BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL,
  lease_ends_at BIGINT NOT NULL,
  retention_ms BIGINT NOT NULL,
  kept_until BIGINT NOT NULL,
  completed_at BIGINT,
  outcome LONGBLOB
) ${TABLE_OPTIONS}`;

/** For purging. */
const KEPT_UNTIL_INDEX = "CREATE INDEX nevertwice_kept_until ON nevertwice_records (kept_until)";

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

/**
 * A column that is added without a new version, so that releases that do not know it keep working on the same tables. It
 * allows NULL, which means what those releases mean.
 */
export interface ColumnAddition {
  readonly table: string;
  readonly column: string;
  readonly sql: string;
}

/** Every version that the tables have reached. */
export const VERSIONS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_versions (
  version INT NOT NULL PRIMARY KEY
) ${TABLE_OPTIONS}`;

/** In order. A released migration is never changed. Each can be repeated after a crash in the middle of it. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, sql: RECORDS_TABLE },
  { version: 2, sql: KEPT_UNTIL_INDEX },
];

export function versionReachedSql(version: number): string {
  return `INSERT IGNORE INTO nevertwice_versions (version) VALUES (${whole(version)})`;
}

/** The column for finished steps (core/kept-steps.ts). */
const STEPS_COLUMN = {
  table: "nevertwice_records",
  column: "steps",
  sql: "ALTER TABLE nevertwice_records ADD COLUMN steps LONGBLOB",
} as const;

/** The column for the history (core/kept-history.ts). */
const HISTORY_COLUMN = {
  table: "nevertwice_records",
  column: "history",
  sql: "ALTER TABLE nevertwice_records ADD COLUMN history BLOB",
} as const;

/**
 * When the lease of a held pending record ends, and NULL in every other record. So a search by time finds only those, and a
 * record that is not held never changes its entry, which the index has for NULL too. 1 is the state `pending`.
 */
const HELD_COLUMN = {
  table: "nevertwice_records",
  column: "held_until",
  sql: "ALTER TABLE nevertwice_records ADD COLUMN held_until BIGINT AS (IF(state = 1 AND hold <> 0, lease_ends_at, NULL)) VIRTUAL",
} as const;

/** For lists, on what a claim sets alone, and for the count of undecided records. Every release keeps them up. */
const INDEXES: readonly string[] = [
  "CREATE INDEX nevertwice_claims ON nevertwice_records (namespace, claimed_at)",
  "CREATE INDEX nevertwice_scopes ON nevertwice_records (namespace, scope, claimed_at)",
  "CREATE INDEX nevertwice_keys ON nevertwice_records (namespace, `key`, claimed_at)",
  "CREATE INDEX nevertwice_held ON nevertwice_records (held_until)",
];

/** Added without a new version of the tables, and written by all steps once both exist. */
export const KEPT_COLUMNS = [STEPS_COLUMN, HISTORY_COLUMN] as const;

/** Answers the version, and how many of `KEPT_COLUMNS` exist. */
const VERSION_SQL = `SELECT MAX(version) AS version, ${KEPT_COLUMNS.map((column) => `(${countColumnSql(column)})`).join(" + ")} AS additions FROM nevertwice_versions`;

const NAMES = ["nevertwice_records"] as const;

export const TABLES = {
  NAMES,
  VERSIONS_TABLE,
  VERSION_SQL,
  versionReachedSql,
  MIGRATIONS,
  ADDITIONS: [...KEPT_COLUMNS, HELD_COLUMN],
  INDEXES,
} as const;

/** One migration at a time per database. The name of a lock may have at most 64 characters. */
const LOCK_NAME = "CONCAT('nevertwice ', LEFT(SHA2(DATABASE(), 256), 40))";
export const LOCK_SQL = `SELECT GET_LOCK(${LOCK_NAME}, 60) AS is_locked`;
export const UNLOCK_SQL = `SELECT RELEASE_LOCK(${LOCK_NAME}) AS is_unlocked`;

/** Returns the variables that decide whether a connection may be used, and how large its packets may be. */
export const SESSION_SQL =
  "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'innodb_read_only', 'max_allowed_packet', " +
  "'read_only', 'super_read_only', 'transaction_isolation', 'tx_isolation')";

/** Returns the variables that decide which faults a claim survives. */
export const SETTINGS_SQL =
  "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_format', 'innodb_doublewrite', " +
  "'innodb_flush_log_at_trx_commit', 'log_bin', 'read_only', 'sync_binlog', 'version', 'wsrep_dirty_reads', 'wsrep_on', " +
  "'wsrep_provider_options', 'wsrep_sync_wait')";

/** Returns how many nodes a Galera cluster has, in the same form. */
export const CLUSTER_SQL = "SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_size'";

/** Returns 1 if the table has the column, else 0. */
export function countColumnSql({ table, column }: Pick<ColumnAddition, "table" | "column">): string {
  return (
    "SELECT COUNT(*) AS columns_found FROM information_schema.columns " +
    `WHERE table_schema = DATABASE() AND table_name = '${table}' AND column_name = '${column}'`
  );
}

/** Returns the name and engine of each of these tables that exists. */
export function enginesSql(tables: readonly string[]): string {
  return (
    "SELECT table_name AS name, engine AS engine FROM information_schema.tables " +
    `WHERE table_schema = DATABASE() AND table_name IN (${tables.map((name) => `'${name}'`).join(", ")})`
  );
}
