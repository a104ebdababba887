/**
 * The statements of the MySQL store, for MySQL 8 and MariaDB alike, and its tables. Times are microseconds since the
 * epoch, by the server's clock.
 */
import type { Kept } from "../core/record.ts";
import type { ListRequest, RecordState } from "../core/store.ts";
import {
  bytes,
  MAX_SHORT_BYTES,
  NOW_US,
  STATEMENT_US,
  short,
  TABLE_OPTIONS,
  whole,
} from "./mysql/literals.ts";

const micros = (ms: number) => whole(Math.round(ms * 1_000));
const flag = (value: boolean) => (value ? "1" : "0");

/** What was found when a record was decided on; a time that stays is written as it was, one that moves from now on. */
interface Before {
  readonly record: Kept | undefined;
  readonly now: number;
}

type TimeName = "claimedAt" | "leaseEndsAt" | "keptUntil" | "completedAt";

function timeOf(name: TimeName, after: Kept, { record, now }: Before): string {
  const time = after[name];
  if (time === undefined) return "NULL";
  return time === record?.[name] ? micros(time) : `${NOW_US} + ${micros(time - now)}`;
}

/** Each column but the id and the fence, and what it is set to. None of them depends on another. */
function assignments(after: Kept, before: Before, mark: string): readonly (readonly [string, string])[] {
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
    ["claimed_at", timeOf("claimedAt", after, before)],
    ["lease_ms", whole(after.leaseMs)],
    ["lease_ends_at", timeOf("leaseEndsAt", after, before)],
    ["retention_ms", whole(after.retentionMs)],
    ["kept_until", timeOf("keptUntil", after, before)],
    ["completed_at", timeOf("completedAt", after, before)],
    ["outcome", bytes(after.outcome)],
  ];
}

/** Reads one record and the clock that judges it; no row where there is none. */
export function readSql(id: string): string {
  return `SELECT *, ${NOW_US} AS now_us FROM nevertwice_records WHERE id = ${short(id)}`;
}

/** Writes the first record of an id. Answers its fence as `insertId`; fails with 1062 where there is one already. */
export function insertSql(id: string, after: Kept, before: Before, mark: string): string {
  const columns = assignments(after, before, mark);
  return (
    `INSERT INTO nevertwice_records (id, fence, ${columns.map(([name]) => name).join(", ")}) ` +
    `VALUES (${short(id)}, LAST_INSERT_ID(${NOW_US}), ${columns.map(([, value]) => value).join(", ")})`
  );
}

/**
 * Writes over the record that carries `beforeMark`. Answers its fence as `insertId`, and 0 where no record carries that
 * mark any more: LAST_INSERT_ID(…) is evaluated for the row that is written and for no other. `affectedRows` would count
 * a row that was found and left as it was, or not, as the connection's flags will have it.
 */
export function updateSql(
  id: string,
  after: Kept,
  before: Before & { readonly mark: string },
  mark: string,
): string {
  const isNewAttempt = after.fence !== before.record?.fence;
  const fence = isNewAttempt ? `GREATEST(fence + 1, ${NOW_US})` : "fence";
  const columns = assignments(after, before, mark).map(([name, value]) => `${name} = ${value}`);
  return (
    `UPDATE nevertwice_records SET fence = LAST_INSERT_ID(${fence}), ${columns.join(", ")} ` +
    `WHERE id = ${short(id)} AND mark = ${short(before.mark)}`
  );
}

/** Removes the record that carries the mark. What it removed is its `affectedRows`, which no flag changes. */
export function deleteSql(id: string, mark: string): string {
  return `DELETE FROM nevertwice_records WHERE id = ${short(id)} AND mark = ${short(mark)}`;
}

/** As `isExpired` in core/record.ts. */
const isExpired = (now: string) => `(kept_until <= ${now} AND NOT (state = 'pending' AND hold = 1))`;

/** Some ids past their time, the longest past first. It locks nothing. */
export function expiredSql(limit: number): string {
  return `SELECT id FROM nevertwice_records WHERE ${isExpired(STATEMENT_US)} ORDER BY kept_until LIMIT ${whole(limit)}`;
}

/**
 * Removes those of the ids that are still past their time: one may have been claimed anew since it was read. By the clock
 * that no index can be used with: rows are locked by their id, as everywhere else, so nobody meets us coming from the
 * other side.
 */
export function purgeSql(ids: readonly string[]): string {
  return `DELETE FROM nevertwice_records WHERE id IN (${ids.map(short).join(", ")}) AND ${isExpired(NOW_US)}`;
}

/** As `stateOf` in core/record.ts. */
const IS_LAPSED = `(spent = 1 OR lease_ends_at <= ${STATEMENT_US})`;
const IN_STATE: Readonly<Record<RecordState, string>> = {
  pending: `state = 'pending' AND NOT ${IS_LAPSED}`,
  lapsed: `state = 'pending' AND ${IS_LAPSED}`,
  completed: "state = 'completed'",
  released: "state = 'released'",
};

/** A page of what is not past its time, in the order of the ids. */
export function listSql({ namespace, scope, state, limit, after }: ListRequest): string {
  const wanted = [
    `namespace = ${bytes(namespace)}`,
    `NOT ${isExpired(STATEMENT_US)}`,
    ...(scope === undefined ? [] : [`scope = ${bytes(scope)}`]),
    ...(state === undefined ? [] : [IN_STATE[state]]),
    ...(after === undefined ? [] : [`id > ${bytes(after)}`]),
  ];
  return (
    `SELECT *, ${STATEMENT_US} AS now_us FROM nevertwice_records ` +
    `WHERE ${wanted.join(" AND ")} ORDER BY id LIMIT ${whole(limit)}`
  );
}

/** Text is kept as its UTF-8 bytes: a collation would call different keys equal, and a character set lose some. */
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

/** Which versions the tables have been through. */
export const VERSIONS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_versions (
  version INT NOT NULL PRIMARY KEY
) ${TABLE_OPTIONS}`;

/** In order; one that was released is never changed. Each can be run again after a crash in the middle of it. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, sql: RECORDS_TABLE },
  { version: 2, sql: KEPT_UNTIL_INDEX },
];

export function versionReachedSql(version: number): string {
  return `INSERT IGNORE INTO nevertwice_versions (version) VALUES (${whole(version)})`;
}

const VERSION_SQL = "SELECT MAX(version) AS version FROM nevertwice_versions";

export const TABLES = { VERSIONS_TABLE, VERSION_SQL, versionReachedSql, MIGRATIONS } as const;

/** One migration at a time in one database; the name of a lock has 64 characters at most. */
const LOCK_NAME = "CONCAT('nevertwice ', LEFT(SHA2(DATABASE(), 256), 40))";
export const LOCK_SQL = `SELECT GET_LOCK(${LOCK_NAME}, 60) AS is_locked`;
export const UNLOCK_SQL = `SELECT RELEASE_LOCK(${LOCK_NAME}) AS is_unlocked`;

/** What decides whether this connection may be used, and what it may carry. */
export const SESSION_SQL =
  "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'innodb_read_only', 'max_allowed_packet', " +
  "'read_only', 'super_read_only', 'transaction_isolation', 'tx_isolation')";

/** What decides which faults a claim survives. */
export const SETTINGS_SQL =
  "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_format', 'innodb_doublewrite', " +
  "'innodb_flush_log_at_trx_commit', 'log_bin', 'read_only', 'sync_binlog', 'version', 'wsrep_on')";

export function enginesSql(tables: readonly string[]): string {
  return (
    "SELECT table_name AS name, engine AS engine FROM information_schema.tables " +
    `WHERE table_schema = DATABASE() AND table_name IN (${tables.map((name) => `'${name}'`).join(", ")})`
  );
}
