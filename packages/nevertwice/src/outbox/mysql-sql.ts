/**
 * The statements of the outbox on MySQL 8 and MariaDB 10.6 or later, which can skip locked rows. Times are microseconds of
 * the server's clock. A claim is a short transaction, since an UPDATE returns no rows here. `store.ts` says why no message
 * is forgotten.
 */
import { MAX_PART_BYTES } from "../core/identity.ts";
import { BOUNDED_SELECT } from "../stores/mysql/bounded-select.ts";
import type { MysqlTables } from "../stores/mysql/schema.ts";
import {
  bytes,
  MAX_SHORT_BYTES,
  NOW_US,
  STATEMENT_US,
  short,
  TABLE_OPTIONS,
  whole,
} from "../stores/mysql/values.ts";
import type { StoredMessage } from "./message.ts";
import {
  type ClaimedRow,
  type FailedRow,
  type ListQuery,
  MAX_COUNTED,
  MAX_DELAY_MS,
  type ParkedRow,
  REPAIR_MARGIN_MS,
} from "./store.ts";

const SHORT = `VARBINARY(${MAX_SHORT_BYTES})`;
const PART = `VARBINARY(${MAX_PART_BYTES})`;

const MESSAGES_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_outbox (
  seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  id ${SHORT} NOT NULL,
  namespace ${PART} NOT NULL,
  scope ${PART} NOT NULL,
  topic ${PART} NOT NULL,
  \`key\` ${PART},
  content LONGBLOB NOT NULL,
  created_at BIGINT NOT NULL,
  attempts INT NOT NULL DEFAULT 0,
  due_at BIGINT,
  token ${SHORT},
  parked_at BIGINT,
  is_parked TINYINT AS (IF(parked_at IS NULL, NULL, 1)) VIRTUAL,
  last_error VARBINARY(2000),
  INDEX nevertwice_outbox_id (id),
  INDEX nevertwice_outbox_due (namespace, due_at, seq),
  INDEX nevertwice_outbox_key (namespace, \`key\`, seq),
  INDEX nevertwice_outbox_parked (namespace, is_parked, seq),
  INDEX nevertwice_outbox_scope (namespace, scope, seq)
) ${TABLE_OPTIONS}`;

/** The migrations, in order. A released migration is never changed. */
export const TABLES: MysqlTables = {
  NAMES: ["nevertwice_outbox"],
  VERSIONS_TABLE: `CREATE TABLE IF NOT EXISTS nevertwice_outbox_versions (
  version INT NOT NULL PRIMARY KEY
) ${TABLE_OPTIONS}`,
  VERSION_SQL: "SELECT MAX(version) AS version FROM nevertwice_outbox_versions",
  versionReachedSql: (version) =>
    `INSERT IGNORE INTO nevertwice_outbox_versions (version) VALUES (${whole(version)})`,
  MIGRATIONS: [{ version: 1, sql: MESSAGES_TABLE }],
};

export const READ_COMMITTED_SQL = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
export const BEGIN_SQL = "START TRANSACTION";
export const COMMIT_SQL = "COMMIT";
export const ROLLBACK_SQL = "ROLLBACK";

const micros = (ms: number) => whole(Math.round(ms * 1_000));
const seqList = (seqs: readonly string[]) => seqs.map((seq) => whole(Number(seq))).join(", ");

/** Writes the messages in the application's transaction, in this order, due at once. */
export function insertText(namespace: string, messages: readonly StoredMessage[]): string {
  const rows = messages.map(
    ({ id, scope, topic, key, content }) =>
      `(${short(id)}, ${bytes(namespace)}, ${bytes(scope)}, ${bytes(topic)}, ${bytes(key)}, ${bytes(content)}, ${NOW_US}, 0)`,
  );
  return `INSERT INTO nevertwice_outbox (id, namespace, scope, topic, \`key\`, content, created_at, due_at) VALUES ${rows.join(", ")}`;
}

/**
 * Locks up to `limit` rows that are due: new ones from a row on, or without it those whose time has come. `blocker` is the oldest row of the key in front of it, NULL for the head. The
 * subquery takes no lock, and sees only what is committed.
 */
export function lookSql(namespace: string, from: string | undefined, limit: number): string {
  const due =
    from === undefined
      ? `c.due_at > 0 AND c.due_at <= ${STATEMENT_US}`
      : `c.due_at = 0 AND c.seq >= ${whole(Number(from))}`;
  return (
    "SELECT c.seq, (SELECT x.seq FROM nevertwice_outbox AS x FORCE INDEX (nevertwice_outbox_key) " +
    `WHERE x.namespace = ${bytes(namespace)} AND x.\`key\` = c.\`key\` AND x.seq < c.seq ORDER BY x.seq LIMIT 1) AS blocker ` +
    "FROM nevertwice_outbox AS c FORCE INDEX (nevertwice_outbox_due) " +
    `WHERE c.namespace = ${bytes(namespace)} AND ${due} ORDER BY c.due_at, c.seq LIMIT ${whole(limit)} FOR UPDATE SKIP LOCKED`
  );
}

/** Locks those of the rows that are still there and not locked. */
export function lockSql(seqs: readonly string[]): string {
  return `SELECT seq FROM nevertwice_outbox WHERE seq IN (${seqList(seqs)}) FOR UPDATE SKIP LOCKED`;
}

export function putBehindSql(seqs: readonly string[]): string {
  return `UPDATE nevertwice_outbox SET due_at = NULL, token = NULL WHERE seq IN (${seqList(seqs)})`;
}

export function claimSql(seqs: readonly string[], token: string, leaseMs: number): string {
  return (
    `UPDATE nevertwice_outbox SET due_at = ${NOW_US} + ${micros(leaseMs)}, token = ${short(token)}, attempts = attempts + 1 ` +
    `WHERE seq IN (${seqList(seqs)})`
  );
}

export function readSql(seqs: readonly string[]): string {
  return (
    "SELECT seq, id, topic, `key`, content, created_at, attempts FROM nevertwice_outbox " +
    `WHERE seq IN (${seqList(seqs)}) ORDER BY seq`
  );
}

/** The rows of these attempts. A row whose token is another one is not among them. */
function isOwn(endings: readonly ClaimedRow[]): string {
  const byToken = new Map<string, string[]>();
  for (const { seq, token } of endings) byToken.set(token, [...(byToken.get(token) ?? []), seq]);
  const each = [...byToken].map(([token, seqs]) => `(seq IN (${seqList(seqs)}) AND token = ${short(token)})`);
  return `seq IN (${seqList(endings.map(({ seq }) => seq))}) AND (${each.join(" OR ")})`;
}

export function deleteSql(endings: readonly ClaimedRow[]): string {
  return `DELETE FROM nevertwice_outbox WHERE ${isOwn(endings)}`;
}

/** A value for each row: `CASE seq WHEN 7 THEN … END`. */
function bySeq<E extends ClaimedRow>(endings: readonly E[], value: (ending: E) => string): string {
  return `CASE seq ${endings.map((ending) => `WHEN ${seqList([ending.seq])} THEN ${value(ending)}`).join(" ")} END`;
}

export function failSql(endings: readonly FailedRow[]): string {
  return (
    `UPDATE nevertwice_outbox SET due_at = ${NOW_US} + ${bySeq(endings, ({ delayMs }) => micros(delayMs))}, token = NULL, ` +
    `last_error = ${bySeq(endings, ({ error }) => bytes(error))} WHERE ${isOwn(endings)}`
  );
}

export function parkEndingsSql(endings: readonly ParkedRow[]): string {
  return (
    `UPDATE nevertwice_outbox SET due_at = NULL, token = NULL, parked_at = ${NOW_US}, ` +
    `last_error = ${bySeq(endings, ({ error }) => bytes(error))} WHERE ${isOwn(endings)}`
  );
}

export function releaseSql(endings: readonly ClaimedRow[]): string {
  return `UPDATE nevertwice_outbox SET due_at = 1, token = NULL, attempts = GREATEST(0, attempts - 1) WHERE ${isOwn(endings)}`;
}

/** The oldest row of each key, if it is behind a deleted one. */
export function headsSql(namespace: string, keys: readonly string[]): string {
  const given = keys.map((key) => `SELECT ${bytes(key)} AS k`).join(" UNION ALL ");
  return (
    "SELECT h.seq FROM (SELECT (SELECT x.seq FROM nevertwice_outbox AS x FORCE INDEX (nevertwice_outbox_key) " +
    `WHERE x.namespace = ${bytes(namespace)} AND x.\`key\` = given.k ORDER BY x.seq LIMIT 1) AS seq FROM (${given}) AS given) AS o ` +
    "JOIN nevertwice_outbox AS h ON h.seq = o.seq WHERE h.due_at IS NULL AND h.parked_at IS NULL"
  );
}

export function advanceSql(seqs: readonly string[]): string {
  return `UPDATE nevertwice_outbox SET due_at = 1 WHERE seq IN (${seqList(seqs)}) AND due_at IS NULL AND parked_at IS NULL`;
}

export function renewSql(endings: readonly ClaimedRow[], leaseMs: number): string {
  return `UPDATE nevertwice_outbox SET due_at = ${NOW_US} + ${micros(leaseMs)} WHERE ${isOwn(endings)}`;
}

/** The rows of these attempts that have their token. */
export function ownSql(endings: readonly ClaimedRow[]): string {
  return `SELECT seq FROM nevertwice_outbox WHERE ${isOwn(endings)}`;
}

/** A time that no relay writes: the clock went back. */
export function repairSql(namespace: string): string {
  return (
    `UPDATE nevertwice_outbox SET due_at = ${NOW_US} + ${micros(REPAIR_MARGIN_MS)} WHERE namespace = ${bytes(namespace)} ` +
    `AND due_at > ${STATEMENT_US} + ${micros(MAX_DELAY_MS + REPAIR_MARGIN_MS)} ORDER BY due_at LIMIT 1000`
  );
}

export function listSql(namespace: string, { key, state, after = "0" }: ListQuery, rows: number): string {
  const isParked = key === undefined && state === "parked";
  const index =
    key !== undefined ? "nevertwice_outbox_key" : isParked ? "nevertwice_outbox_parked" : "PRIMARY";
  const where = key !== undefined ? ` AND \`key\` = ${bytes(key)}` : isParked ? " AND is_parked = 1" : "";
  return (
    `${BOUNDED_SELECT} seq, id, topic, \`key\`, scope, created_at, attempts, due_at, token IS NOT NULL AS is_claimed, parked_at, last_error, ` +
    `${STATEMENT_US} AS now_us FROM nevertwice_outbox FORCE INDEX (${index}) ` +
    `WHERE namespace = ${bytes(namespace)} AND seq > ${whole(Number(after))}${where} ORDER BY seq LIMIT ${whole(rows)}`
  );
}

const isFree = (namespace: string, id: string) =>
  `namespace = ${bytes(namespace)} AND id = ${bytes(id)} AND (token IS NULL OR due_at <= ${STATEMENT_US})`;

export function retrySql(namespace: string, id: string): string {
  return `UPDATE nevertwice_outbox SET due_at = 1, token = NULL, parked_at = NULL, attempts = 0 WHERE ${isFree(namespace, id)}`;
}

export function parkSql(namespace: string, id: string): string {
  return `UPDATE nevertwice_outbox SET due_at = NULL, token = NULL, parked_at = ${NOW_US} WHERE ${isFree(namespace, id)} AND parked_at IS NULL`;
}

/** Locks the message, and returns its key. */
export function freeSql(namespace: string, id: string): string {
  return `SELECT seq, \`key\` FROM nevertwice_outbox WHERE ${isFree(namespace, id)} FOR UPDATE`;
}

export function scopeSql(namespace: string, scope: string, limit: number): string {
  return (
    `SELECT seq, \`key\` FROM nevertwice_outbox WHERE namespace = ${bytes(namespace)} AND scope = ${bytes(scope)} AND scope <> '' ` +
    `ORDER BY seq LIMIT ${whole(limit)} FOR UPDATE`
  );
}

export function deleteSeqsSql(seqs: readonly string[]): string {
  return `DELETE FROM nevertwice_outbox WHERE seq IN (${seqList(seqs)})`;
}

/** Rows of (topic, state, messages, oldest_at, now_us), as on Postgres. */
export function figuresSql(namespace: string): string {
  const where = `WHERE namespace = ${bytes(namespace)}`;
  const state = `CASE WHEN due_at <= ${STATEMENT_US} THEN 'due' WHEN token IS NULL THEN 'planned' ELSE 'delivering' END`;
  return (
    `${BOUNDED_SELECT} topic, state, COUNT(*) AS messages, MIN(created_at) AS oldest_at, ${STATEMENT_US} AS now_us FROM (` +
    `(SELECT topic, ${state} AS state, created_at FROM nevertwice_outbox ${where} AND due_at >= 0 ORDER BY due_at, seq LIMIT ${MAX_COUNTED}) ` +
    "UNION ALL " +
    `(SELECT topic, 'parked', created_at FROM nevertwice_outbox ${where} AND is_parked = 1 ORDER BY seq LIMIT ${MAX_COUNTED}) ` +
    "UNION ALL " +
    `(SELECT topic, 'behind', created_at FROM (SELECT topic, created_at, parked_at FROM nevertwice_outbox ${where} AND due_at IS NULL ` +
    `ORDER BY due_at, seq LIMIT ${2 * MAX_COUNTED}) AS still WHERE parked_at IS NULL)) AS counted GROUP BY topic, state`
  );
}
