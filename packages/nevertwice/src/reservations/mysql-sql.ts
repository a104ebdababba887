/**
 * The statements of reservations on MySQL and MariaDB. Times are milliseconds since the epoch, by the server's clock. Rows
 * are locked only through their primary keys and at READ COMMITTED, so that no lock covers more than its row and all
 * transactions take their locks in the same order.
 */
import { isUtf8 } from "node:buffer";
import { hash } from "node:crypto";
import { lengthPrefixed } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { BOUNDED_SELECT } from "../stores/mysql/bounded-select.ts";
import { packed } from "../stores/mysql/transaction-sql.ts";
import { bytes, IS_SHOWN_EARLY, NOW_US, STATEMENT_US, short, whole } from "../stores/mysql/values.ts";
import { COMMITMENT_DETAILS, COMMITMENT_TERMS, KEY_DETAILS, RESOURCE_DETAILS } from "./columns.ts";
import type { ColumnLiterals } from "./mysql/rows.ts";
import type { CommitmentQuery, PageQuery, PlacementNeed } from "./store.ts";

/** The time at which the statement began. The statement runs after the locks are taken, so this is a time after the locks. */
const STATEMENT_MS = `FLOOR(${STATEMENT_US} / 1000)`;

/** Applies to the next transaction only, so that the connection keeps the settings of its pool. */
export const READ_COMMITTED_SQL = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
export const BEGIN_SQL = "START TRANSACTION";
export const COMMIT_SQL = "COMMIT";
export const ROLLBACK_SQL = "ROLLBACK";

/**
 * Locks keys in the given order, whether or not they have rows: a missing row is inserted as a placeholder, which a
 * rollback removes. Existing rows are not changed. INSERT IGNORE would take shared locks on existing rows, and two
 * transactions with shared locks would deadlock; this statement takes exclusive locks.
 */
export function lockKeysSql(namespace: string, ids: readonly string[]): string {
  const rows = ids.map((id) => `(${short(id)}, ${bytes(namespace)})`);
  return `INSERT INTO nevertwice_reservation_keys (id, namespace) VALUES ${rows.join(", ")} ON DUPLICATE KEY UPDATE id = id`;
}

/** The same for resources. */
export function lockResourcesSql(namespace: string, names: readonly string[]): string {
  const rows = names.map((name) => `(${bytes(namespace)}, ${bytes(name)})`);
  return `INSERT INTO nevertwice_resources (namespace, name) VALUES ${rows.join(", ")} ON DUPLICATE KEY UPDATE name = name`;
}

/**
 * A transaction of the application marks the keys and resources that it has locked: it inserts a key with this id and deletes
 * it again. The lock of that row stays until the transaction ends, and the row never becomes visible. The store's own
 * transactions only look whether it is locked. The rows of keys and resources would not tell them: another group may hold
 * them for a millisecond, and an application for seconds.
 */
export function keyMark(id: string): string {
  return `open:key:${id}`;
}

export function resourceMark(namespace: string, name: string): string {
  return `open:resource:${hash("sha256", [namespace, name].map(lengthPrefixed).join(""), "hex")}`;
}

/**
 * Fails immediately if a transaction of the application holds one of these marks. Keeps no lock. The join looks up one mark
 * after the other; for a list of them, the server may read the whole of a small table and meet the locks of other rows.
 */
export function areFreeSql(marks: readonly string[]): string {
  const rows = marks.map((mark) => `SELECT ${short(mark)} AS mark`);
  return (
    `SELECT taken.id FROM (${rows.join(" UNION ALL ")}) AS marks ` +
    "STRAIGHT_JOIN nevertwice_reservation_keys AS taken FORCE INDEX (PRIMARY) ON taken.id = marks.mark FOR UPDATE NOWAIT"
  );
}

/** Deletes a mark or a placeholder. Its lock stays until the transaction ends. */
export function deleteKeySql(id: string): string {
  return `DELETE FROM nevertwice_reservation_keys WHERE id = ${short(id)}`;
}

/** Waits for the locks and reads the last committed keys. Placeholders of this transaction are included. */
export function readKeysSql(ids: readonly string[]): string {
  return `SELECT * FROM nevertwice_reservation_keys FORCE INDEX (PRIMARY) WHERE id IN (${list(ids)}) ORDER BY id FOR UPDATE`;
}

export function readResourcesSql(namespace: string, names: readonly string[]): string {
  return (
    "SELECT * FROM nevertwice_resources FORCE INDEX (PRIMARY) " +
    `WHERE namespace = ${bytes(namespace)} AND name IN (${list(names)}) ORDER BY name FOR UPDATE`
  );
}

export function readCommitmentsSql(namespace: string, ids: readonly string[]): string {
  return (
    "SELECT * FROM nevertwice_commitments FORCE INDEX (PRIMARY) " +
    `WHERE namespace = ${bytes(namespace)} AND id IN (${list(ids)}) ORDER BY id FOR UPDATE`
  );
}

/** Selects the resources of these commitments. Takes no locks, since the resource of a commitment never changes. */
export function resourcesOfSql(namespace: string, ids: readonly string[]): string {
  return (
    "SELECT DISTINCT resource FROM nevertwice_commitments FORCE INDEX (PRIMARY) " +
    `WHERE namespace = ${bytes(namespace)} AND id IN (${list(ids)})`
  );
}

/**
 * Selects the time, and the holds of these resources whose time is over. Returns at least one row. Takes no locks: a
 * commitment changes only under the lock of its resource, which this transaction holds. A locking read of the index would
 * also lock neighbouring rows.
 */
export function clockSql(namespace: string, placements: readonly PlacementNeed[]): string {
  if (placements.length === 0) return `SELECT ${STATEMENT_MS} AS now_ms`;
  const elapsed = placements.map(
    ({ resource, most }) =>
      "(SELECT * FROM nevertwice_commitments FORCE INDEX (nevertwice_commitments_held_of) " +
      `WHERE namespace = ${bytes(namespace)} AND resource = ${bytes(resource)} AND held_until <= ${STATEMENT_MS} ` +
      `ORDER BY held_until, id LIMIT ${most})`,
  );
  return (
    `SELECT clock.now_ms, elapsed.* FROM (SELECT ${STATEMENT_MS} AS now_ms) AS clock ` +
    `LEFT JOIN (${elapsed.join(" UNION ALL ")}) AS elapsed ON 1 = 1`
  );
}

/** Inserts rows, or updates those that exist. */
export function upsertSql(table: string, rows: readonly ColumnLiterals[]): string {
  const updates = columnNames(rows).map((name) => `${name} = VALUES(${name})`);
  return `${insertSql(table, rows)} ON DUPLICATE KEY UPDATE ${updates.join(", ")}`;
}

/** Inserts rows; fails with error 1062 if one exists. */
export function insertSql(table: string, rows: readonly ColumnLiterals[]): string {
  const values = rows.map((row) => `(${Object.values(row).join(", ")})`);
  return `INSERT INTO ${table} (${columnNames(rows).join(", ")}) VALUES ${values.join(", ")}`;
}

function columnNames([first]: readonly ColumnLiterals[]): string[] {
  return Object.keys(first ?? {});
}

/** Deletes placeholders of resources that the transaction did not write. */
export function forgetResourcesSql(namespace: string, names: readonly string[]): string {
  return `DELETE FROM nevertwice_resources WHERE namespace = ${bytes(namespace)} AND name IN (${list(names)})`;
}

/**
 * Gives a transaction that only read something to commit, if the server shows commits before they are on disk: the log is
 * flushed in order, so this commit flushes everything before it. It inserts a placeholder that `deleteKeySql` removes in the
 * same transaction, and changes no row if nothing is shown early.
 */
export function flushSql(namespace: string, id: string): string {
  return (
    "INSERT INTO nevertwice_reservation_keys (id, namespace) " +
    `SELECT ${short(id)}, ${bytes(namespace)} FROM (SELECT 1) AS one WHERE ${IS_SHOWN_EARLY}`
  );
}

/**
 * Selects the checkpoints of the transactions that wrote these keys. It waits for their locks, since a transaction whose
 * connection was lost may still be committing.
 */
export function writersSql(ids: readonly string[]): string {
  return `SELECT checkpoint FROM nevertwice_reservation_keys FORCE INDEX (PRIMARY) WHERE id IN (${list(ids)}) LOCK IN SHARE MODE`;
}

/** Selects one commitment, the time, and whether commits are shown before they are on disk. Always returns one row. */
export function getSql(namespace: string, id: string): string {
  return (
    `SELECT ${STATEMENT_MS} AS now_ms, ${IS_SHOWN_EARLY} AS is_shown_early, found.* ` +
    "FROM (SELECT 1) AS one LEFT JOIN nevertwice_commitments AS found " +
    `ON found.namespace = ${bytes(namespace)} AND found.id = ${bytes(id)}`
  );
}

export function commitmentsSql({ resource, requester, state, ...page }: CommitmentQuery): string {
  return pageSql("nevertwice_commitments", "id", page, [
    ...equal("resource", resource),
    ...equal("requester", requester),
    ...equal("state", state),
    // Redundant, but lets MySQL use the index on holds.
    ...(state === "held" ? ["held_until IS NOT NULL"] : []),
  ]);
}

export function resourcesSql({ name, ...page }: PageQuery & { readonly name?: string | undefined }): string {
  return pageSql("nevertwice_resources", "name", page, equal("name", name));
}

export function keysSql({
  id,
  commitment,
  ...page
}: PageQuery & { readonly id?: string | undefined; readonly commitment?: string | undefined }): string {
  return pageSql("nevertwice_reservation_keys", "id", page, [
    ...equal("id", id),
    ...equal("commitment", commitment),
  ]);
}

export function checkpointsSql(page: PageQuery): string {
  return pageSql("nevertwice_checkpoints", "id", page, []);
}

/** The position of an event in a page: its number and its subject, which may be any text. */
const EVENT_POSITION = /^(-?\d{1,19}) (.*)$/s;

export function eventsSql({
  namespace,
  subject,
  limit,
  after,
}: PageQuery & { readonly subject?: string | undefined }): string {
  const conditions = [`namespace = ${bytes(namespace)}`, ...equal("subject", subject)];
  if (after !== undefined) {
    const [, number, name] = EVENT_POSITION.exec(after) ?? [];
    if (number === undefined || name === undefined)
      throw new NevertwiceError("options-invalid", "after is not the next of a page.");
    const position = fromPosition(name);
    conditions.push(`subject >= ${position}`, `(subject > ${position} OR number > ${number})`);
  }
  return `${BOUNDED_SELECT} * FROM nevertwice_reservation_events WHERE ${conditions.join(" AND ")} ORDER BY subject, number LIMIT ${whole(limit)}`;
}

/**
 * Selects ids of holds whose time is over, oldest first; only those after the hold `after`, if given. The position of
 * `after` uses `expires_at`, because `held_until` becomes NULL once it is no longer held.
 */
export function elapsedSql(namespace: string, limit: number, after: string | undefined): string {
  const last = `(SELECT expires_at, id FROM nevertwice_commitments WHERE namespace = ${bytes(namespace)} AND id = ${bytes(after ?? "")})`;
  const condition = after === undefined ? "" : ` AND (held_until, id) > ${last}`;
  return (
    `${BOUNDED_SELECT} id FROM nevertwice_commitments FORCE INDEX (nevertwice_commitments_held) ` +
    `WHERE namespace = ${bytes(namespace)} AND held_until <= ${STATEMENT_MS}${condition} ORDER BY held_until, id LIMIT ${whole(limit)}`
  );
}

export const NOW_SQL = `SELECT ${STATEMENT_MS} AS now_ms`;

/** A table as it is read on a connection of the application. */
export interface InsideTable {
  readonly name: string;
  readonly columns: readonly string[];
}

export const INSIDE = {
  keys: {
    name: "nevertwice_reservation_keys",
    columns: ["id", "namespace", "scope", "`key`", ...KEY_DETAILS, "checkpoint"],
  },
  resources: { name: "nevertwice_resources", columns: ["namespace", "name", ...RESOURCE_DETAILS] },
  commitments: {
    name: "nevertwice_commitments",
    columns: [...COMMITMENT_TERMS, "held_until", ...COMMITMENT_DETAILS],
  },
} as const satisfies Record<string, InsideTable>;

/** Selects one row as one text, since query builders convert columns in their own ways. */
export function insideSql({ name, columns }: InsideTable, condition: string, locking: string): string {
  return `SELECT ${packed(columns)} AS answer FROM ${name} FORCE INDEX (PRIMARY) WHERE ${condition} ${locking}`;
}

export const isKey = (id: string) => `id = ${short(id)}`;
export const isResource = (namespace: string, name: string) =>
  `namespace = ${bytes(namespace)} AND name = ${bytes(name)}`;
export const isCommitment = (namespace: string, id: string) =>
  `namespace = ${bytes(namespace)} AND id = ${bytes(id)}`;

export const INSIDE_CLOCK_SQL = `SELECT CONCAT(${STATEMENT_MS}) AS answer`;

/** Inserts a row for a commitment that the transaction does not see. Fails with error 1062 if it exists. */
export function probeSql(namespace: string, id: string): string {
  return (
    "INSERT INTO nevertwice_commitments (namespace, id, resource, requester, units, placed_at, expires_at, state, " +
    `occupied, requester_salt, events, last_hash) VALUES (${bytes(namespace)}, ${short(id)}, '', '', 0, 0, 0, '', 0, '', 0, '')`
  );
}

export function unprobeSql(namespace: string, id: string): string {
  return `DELETE FROM nevertwice_commitments WHERE ${isCommitment(namespace, id)} AND units = 0`;
}

/** The place of a hold in the order in which holds elapse. */
export interface HeldPosition {
  readonly heldUntil: number;
  readonly id: string;
}

/** Selects the first hold of a resource after the position whose time is over, as one text of its time and its id. Takes no locks. */
export function nextElapsedSql(
  namespace: string,
  resource: string,
  now: number,
  position: HeldPosition | undefined,
): string {
  const after =
    position === undefined
      ? ""
      : ` AND (held_until > ${whole(position.heldUntil)} OR (held_until = ${whole(position.heldUntil)} AND id > ${bytes(position.id)}))`;
  return (
    `SELECT ${packed(["held_until", "id"])} AS answer FROM nevertwice_commitments ` +
    "FORCE INDEX (nevertwice_commitments_held_of) " +
    `WHERE namespace = ${bytes(namespace)} AND resource = ${bytes(resource)} AND held_until <= ${whole(now)}${after} ` +
    "ORDER BY held_until, id LIMIT 1"
  );
}

/** Selects keys past their time, oldest first. Takes no locks. */
export function pastKeysSql(limit: number): string {
  return (
    `${BOUNDED_SELECT} id FROM nevertwice_reservation_keys ` +
    `WHERE kept_until <= ${STATEMENT_MS} ORDER BY kept_until LIMIT ${whole(limit)}`
  );
}

/** Deletes the keys that are still past their time: a key may have been recorded again since it was selected. */
export function purgeSql(ids: readonly string[]): string {
  return `DELETE FROM nevertwice_reservation_keys WHERE id IN (${list(ids)}) AND kept_until <= FLOOR(${NOW_US} / 1000)`;
}

function pageSql(
  table: string,
  by: string,
  { namespace, limit, after }: PageQuery,
  conditions: readonly string[],
): string {
  const all = [`namespace = ${bytes(namespace)}`, ...conditions];
  if (after !== undefined) all.push(`${by} > ${fromPosition(after)}`);
  return `${BOUNDED_SELECT} * FROM ${table} WHERE ${all.join(" AND ")} ORDER BY ${by} LIMIT ${whole(limit)}`;
}

/** The position of a row in a page: its name, or NUL and its bytes in hexadecimal if the name is not valid text. */
export function toPosition(name: Buffer): string {
  return isUtf8(name) && name[0] !== 0 ? name.toString("utf8") : `\u0000${name.toString("hex")}`;
}

function fromPosition(position: string): string {
  const isBytes = position.startsWith("\u0000") && /^(?:[0-9a-f]{2})*$/.test(position.slice(1));
  return isBytes ? `X'${position.slice(1)}'` : bytes(position);
}

function equal(column: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${column} = ${bytes(value)}`];
}

function list(values: readonly string[]): string {
  return values.map(bytes).join(", ");
}
