/**
 * The statements of reservations in MySQL or MariaDB. Times are milliseconds since the epoch, by the server's clock. Rows
 * are locked by their primary keys and by nothing else, at READ COMMITTED: so no lock covers more than its row, and all
 * transactions come from the same side.
 */
import { bytes, NOW_US, STATEMENT_US, short, whole } from "../stores/mysql/literals.ts";
import type { CommitmentQuery, PageQuery, Place } from "./ledger.ts";
import type { Columns } from "./mysql/rows.ts";

/** The clock when the statement began, the same for all of it. Asked after the locks, it is a clock after the locks. */
const STATEMENT_MS = `FLOOR(${STATEMENT_US} / 1000)`;

/** Of the next transaction alone: the connection stays as its pool has set it up. */
export const READ_COMMITTED_SQL = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
export const BEGIN_SQL = "START TRANSACTION";
export const COMMIT_SQL = "COMMIT";
export const ROLLBACK_SQL = "ROLLBACK";

/**
 * Locks keys one after the other in the order given, whether there is such a row or not: a placeholder stands for one that
 * is not there, and is gone with a rollback. INSERT IGNORE would take shared locks on rows that are there, and two who
 * have those wait for each other; this takes exclusive ones, and changes nothing.
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

/** Reads keys as they were last committed, once they are free. Placeholders of our own have no answer. */
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

/** Which resources these commitments are of, which never changes: it locks nothing. */
export function resourcesOfSql(namespace: string, ids: readonly string[]): string {
  return (
    "SELECT DISTINCT resource FROM nevertwice_commitments FORCE INDEX (PRIMARY) " +
    `WHERE namespace = ${bytes(namespace)} AND id IN (${list(ids)})`
  );
}

/**
 * The clock, and the elapsed holds of these resources by it. Always one row at least. It locks nothing: whoever changes a
 * commitment has locked its resource, and these are ours; a locking read of an index would also lock its neighbours.
 */
export function clockSql(namespace: string, placements: readonly Place[]): string {
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

/** Writes rows over those with their primary keys, or as new ones. */
export function upsertSql(table: string, rows: readonly Columns[]): string {
  const updates = namesOf(rows).map((name) => `${name} = VALUES(${name})`);
  return `${insertSql(table, rows)} ON DUPLICATE KEY UPDATE ${updates.join(", ")}`;
}

/** Writes new rows; fails with 1062 where there is one already. */
export function insertSql(table: string, rows: readonly Columns[]): string {
  const values = rows.map((row) => `(${Object.values(row).join(", ")})`);
  return `INSERT INTO ${table} (${namesOf(rows).join(", ")}) VALUES ${values.join(", ")}`;
}

function namesOf([first]: readonly Columns[]): string[] {
  return Object.keys(first ?? {});
}

/** Removes placeholders of resources that nothing was written of. */
export function forgetResourcesSql(namespace: string, names: readonly string[]): string {
  return `DELETE FROM nevertwice_resources WHERE namespace = ${bytes(namespace)} AND name IN (${list(names)})`;
}

/**
 * Which transactions wrote these keys, by their checkpoints. It waits for whoever still has them: a transaction whose
 * connection is lost may yet commit, or not.
 */
export function writersSql(ids: readonly string[]): string {
  return `SELECT checkpoint FROM nevertwice_reservation_keys FORCE INDEX (PRIMARY) WHERE id IN (${list(ids)}) LOCK IN SHARE MODE`;
}

/** One commitment and the clock. Always one row. */
export function getSql(namespace: string, id: string): string {
  return (
    `SELECT ${STATEMENT_MS} AS now_ms, found.* FROM (SELECT 1) AS one LEFT JOIN nevertwice_commitments AS found ` +
    `ON found.namespace = ${bytes(namespace)} AND found.id = ${bytes(id)}`
  );
}

export function commitmentsSql({ resource, requester, state, ...page }: CommitmentQuery): string {
  return pageSql("nevertwice_commitments", "id", page, [
    ...equal("resource", resource),
    ...equal("requester", requester),
    ...equal("state", state),
    // It says the same, and lets the index of what is held be used.
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

/** `from` is the last event of the page before. */
export function eventsSql(
  { namespace, subject, limit }: PageQuery & { readonly subject?: string | undefined },
  from: { readonly subject: string; readonly number: number } | undefined,
): string {
  const wanted = [
    `namespace = ${bytes(namespace)}`,
    ...equal("subject", subject),
    ...(from === undefined
      ? []
      : [
          `subject >= ${bytes(from.subject)}`,
          `(subject > ${bytes(from.subject)} OR number > ${whole(from.number)})`,
        ]),
  ];
  return `SELECT * FROM nevertwice_reservation_events WHERE ${wanted.join(" AND ")} ORDER BY subject, number LIMIT ${whole(limit)}`;
}

export function elapsedSql(namespace: string, limit: number): string {
  return (
    "SELECT id FROM nevertwice_commitments FORCE INDEX (nevertwice_commitments_held) " +
    `WHERE namespace = ${bytes(namespace)} AND held_until <= ${STATEMENT_MS} ORDER BY held_until, id LIMIT ${whole(limit)}`
  );
}

export const NOW_SQL = `SELECT ${STATEMENT_MS} AS now_ms`;

/** Some keys past their time, the longest past first. It locks nothing. */
export function pastKeysSql(limit: number): string {
  return (
    "SELECT id FROM nevertwice_reservation_keys " +
    `WHERE kept_until <= ${STATEMENT_MS} ORDER BY kept_until LIMIT ${whole(limit)}`
  );
}

/** Removes those of the keys that are still past their time: one may have been recorded anew since it was read. */
export function purgeSql(ids: readonly string[]): string {
  return `DELETE FROM nevertwice_reservation_keys WHERE id IN (${list(ids)}) AND kept_until <= FLOOR(${NOW_US} / 1000)`;
}

function pageSql(
  table: string,
  by: string,
  { namespace, limit, after }: PageQuery,
  wanted: readonly string[],
): string {
  const all = [`namespace = ${bytes(namespace)}`, ...wanted];
  if (after !== undefined) all.push(`${by} > ${bytes(after)}`);
  return `SELECT * FROM ${table} WHERE ${all.join(" AND ")} ORDER BY ${by} LIMIT ${whole(limit)}`;
}

function equal(column: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${column} = ${bytes(value)}`];
}

function list(values: readonly string[]): string {
  return values.map(bytes).join(", ");
}
