/**
 * A group of actions as one MySQL transaction on one connection: locks, clock, decision, writes, commit.
 *
 *   keys ─▶ resources ─▶ commitments ─▶ clock and elapsed holds ─▶ decide ─▶ write ─▶ COMMIT
 *   └────────────────────── any toStoreError: ROLLBACK, nothing was written ──────┘        └─ no answer: look for the keys
 */
import { randomUUID } from "node:crypto";
import {
  change,
  type MysqlClient,
  type MysqlConnection,
  type MysqlRow,
  queryRows,
} from "../../stores/mysql/client.ts";
import { toStoreError } from "../../stores/mysql/errors.ts";
import type { BoundedClient, BoundedConnection } from "../../stores/mysql/statement-runner.ts";
import { readNumber, readText } from "../../stores/mysql/values.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { decide, type GroupDecision, neededRows } from "../decision.ts";
import * as sql from "../mysql-sql.ts";
import { requireLockedResources } from "../placed-meanwhile.ts";
import {
  type KeptCommitment,
  type LockedRows,
  MayBeWritten,
  type NeededRows,
  NotWritten,
  type Rules,
  type Writes,
} from "../store.ts";
import { type Readable, requireReadable, separateUnreadable } from "../stored-rows.ts";
import { createTimeOrderedId } from "../time-ordered-id.ts";
import { lockRows } from "./locks.ts";
import {
  fromCheckpoint,
  fromCommitment,
  fromEvent,
  fromKey,
  fromResource,
  isNull,
  isPlaceholder,
  isTooLong,
  toCommitment,
  toKey,
  toResource,
} from "./rows.ts";

export interface TransactionMode {
  /** Look for transactions of the application before anything is locked, and fail if there is one. */
  readonly looksFirst?: boolean;
  /** The transaction is repeated because its first COMMIT failed. */
  readonly isRepeat?: boolean;
}

/**
 * Throws `NotWritten` or `MayBeWritten`. If a transaction of the application has locked what the group needs, the cause of
 * `NotWritten` is a lock that is taken, or `MetOpenTransaction`.
 */
export async function transact(
  client: BoundedClient,
  group: readonly ActionRequest[],
  rules: Rules,
  mode: TransactionMode = {},
): Promise<readonly Answer[]> {
  const checkpoint = createTimeOrderedId();
  const connection = await client.getConnection().catch((error: unknown) => {
    throw new NotWritten(toStoreError(error));
  });
  const decision = await decideAndWrite({ client, connection }, { group, rules, checkpoint, ...mode }).catch(
    async (error: unknown) => {
      throw await rollBack(connection, error);
    },
  );
  try {
    await change(connection, sql.COMMIT_SQL);
  } catch (error) {
    // The connection may still be in the transaction, so it must not return to the pool.
    connection.destroy();
    // Nothing was written, but the server may have lost what was read: read it again, once.
    if (decision.writes.keys.length === 0 && !mode.isRepeat)
      return transact(client, group, rules, { ...mode, isRepeat: true });
    return settleCommit(client, decision, checkpoint, toStoreError(error));
  }
  connection.release();
  return decision.answers;
}

/** What a transaction of the application holds for these rows. */
export function toMarks(
  { keyIds }: NeededRows,
  namespace: string,
  names: readonly string[],
): readonly string[] {
  return [...keyIds.map(sql.keyMark), ...names.map((name) => sql.resourceMark(namespace, name))];
}

/** Runs one statement at READ COMMITTED. Returns how many rows it changed. */
export async function changeCommitted(client: MysqlClient, statement: string): Promise<number> {
  try {
    const connection = await client.getConnection();
    try {
      await change(connection, sql.READ_COMMITTED_SQL);
      const { affectedRows } = await change(connection, statement);
      connection.release();
      return affectedRows;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  } catch (error) {
    throw toStoreError(error);
  }
}

/** If the connection is lost, the server rolls back by itself. */
async function rollBack(connection: MysqlConnection, error: unknown): Promise<NotWritten> {
  try {
    await change(connection, sql.ROLLBACK_SQL);
    connection.release();
  } catch {
    connection.destroy();
  }
  return new NotWritten(toStoreError(error));
}

interface LockedGroup {
  readonly found: LockedRows;
  readonly now: number;
  /** Names of resources that had no row, and now have a placeholder. */
  readonly placeholders: readonly string[];
}

interface GroupInput extends TransactionMode {
  readonly group: readonly ActionRequest[];
  readonly rules: Rules;
  readonly checkpoint: string;
}

interface Connected {
  readonly client: MysqlClient;
  /** The connection of the transaction. */
  readonly connection: BoundedConnection;
}

async function decideAndWrite(
  { client, connection }: Connected,
  { group, rules, checkpoint, looksFirst = false }: GroupInput,
): Promise<GroupDecision> {
  await change(connection, sql.READ_COMMITTED_SQL);
  await change(connection, sql.BEGIN_SQL);
  const { found, now, placeholders } = await lock({ client, connection }, group, rules.namespace, looksFirst);
  const decision = decide(group, found, now, rules, checkpoint);
  for (const statement of writeStatements(decision.writes, checkpoint)) await change(connection, statement);
  const written = new Set(decision.writes.resources.map(({ name }) => name));
  const unused = placeholders.filter((name) => !written.has(name));
  if (unused.length > 0) await change(connection, sql.forgetResourcesSql(rules.namespace, unused));
  // Every answer came from a key that was stored before, and that a crash may still lose.
  if (decision.writes.keys.length === 0) await writeForFlush(connection, rules.namespace, checkpoint);
  return decision;
}

async function writeForFlush(connection: MysqlConnection, namespace: string, id: string): Promise<void> {
  const { affectedRows } = await change(connection, sql.flushSql(namespace, id));
  if (affectedRows > 0) await change(connection, sql.deleteKeySql(id));
}

/** Waits until everything that other connections could see before is on disk. */
export async function flush(client: MysqlClient, namespace: string): Promise<void> {
  const connection = await client.getConnection();
  try {
    await change(connection, sql.READ_COMMITTED_SQL);
    await change(connection, sql.BEGIN_SQL);
    await writeForFlush(connection, namespace, randomUUID());
    await change(connection, sql.COMMIT_SQL);
    connection.release();
  } catch (error) {
    // The connection may still be in the transaction, so it must not return to the pool.
    connection.destroy();
    throw toStoreError(error);
  }
}

async function lock(
  { client, connection }: Connected,
  group: readonly ActionRequest[],
  namespace: string,
  looksFirst: boolean,
): Promise<LockedGroup> {
  const needs = neededRows(group);
  const { keyIds, placements } = needs;
  const ids = needs.commitmentIds.filter((id) => !isTooLong(id));
  if (looksFirst) {
    const marked = await findNames(connection, needs, namespace);
    await queryRows(connection, sql.areFreeSql(toMarks(needs, namespace, marked)));
  }
  // All transactions lock in this order, so that none waits for a row while holding a later one.
  await lockRows(client, connection, sql.lockKeysSql(namespace, keyIds), () => keyIds.map(sql.keyMark));
  const keys = await queryRows(connection, sql.readKeysSql(keyIds));
  const names = await findNames(connection, needs, namespace);
  if (names.length > 0) {
    const marks = () => names.map((name) => sql.resourceMark(namespace, name));
    await lockRows(client, connection, sql.lockResourcesSql(namespace, names), marks);
  }
  const resources =
    names.length === 0 ? [] : await queryRows(connection, sql.readResourcesSql(namespace, names));
  const commitments =
    ids.length === 0 ? [] : await queryRows(connection, sql.readCommitmentsSql(namespace, ids));
  const clock = await queryRows(connection, sql.clockSql(namespace, placements));
  const isThere = (row: MysqlRow) => !isPlaceholder(row);
  const found = {
    keys: byName(keys.filter(isThere).map(toKey), ({ id }) => id),
    resources: byName(resources.filter(isThere).map(toResource), ({ name }) => name),
    commitments: byName(commitments.map(toCommitment), ({ id }) => id),
    // A hold that cannot be read cannot be expired: it keeps its units.
    elapsed: groupByResource(
      separateUnreadable(clock.filter((row) => !isNull(row, "id")).map(toCommitment)).rows,
    ),
  };
  requireLockedResources(found, names);
  return {
    found,
    now: readNumber(clock[0] as MysqlRow, "now_ms"),
    placeholders: resources.filter(isPlaceholder).map((row) => readText(row, "name")),
  };
}

/** The resources that are named, and those of the commitments, in the order in which they are locked. */
export async function findNames(
  connection: Parameters<typeof queryRows>[0],
  { resources, commitmentIds }: NeededRows,
  namespace: string,
): Promise<readonly string[]> {
  const ids = commitmentIds.filter((id) => !isTooLong(id));
  if (ids.length === 0) return resources;
  const rows = await queryRows(connection, sql.resourcesOfSql(namespace, ids));
  return [...new Set([...resources, ...rows.map((row) => readText(row, "resource"))])].sort();
}

/** Throws `store-unsafe` if a row cannot be read. */
function byName<T>(rows: readonly Readable<T>[], toName: (row: T) => string): ReadonlyMap<string, T> {
  return new Map(rows.map(requireReadable).map((row) => [toName(row), row]));
}

function groupByResource(rows: readonly KeptCommitment[]): LockedRows["elapsed"] {
  const elapsed = new Map<string, KeptCommitment[]>();
  for (const row of [...rows].sort((a, b) => a.expiresAt - b.expiresAt)) {
    const others = elapsed.get(row.resource);
    if (others === undefined) elapsed.set(row.resource, [row]);
    else others.push(row);
  }
  return elapsed;
}

/** The statements that write a decision, in order. */
export function writeStatements(writes: Writes, checkpoint: string): readonly string[] {
  const { keys, resources, commitments, events } = writes;
  const statements = [
    keys.length > 0 &&
      sql.upsertSql(
        "nevertwice_reservation_keys",
        keys.map((key) => fromKey(key, checkpoint)),
      ),
    resources.length > 0 && sql.upsertSql("nevertwice_resources", resources.map(fromResource)),
    commitments.length > 0 && sql.upsertSql("nevertwice_commitments", commitments.map(fromCommitment)),
    events.length > 0 && sql.insertSql("nevertwice_reservation_events", events.map(fromEvent)),
    writes.checkpoint !== undefined &&
      sql.insertSql("nevertwice_checkpoints", [fromCheckpoint(writes.checkpoint)]),
  ];
  return statements.filter((statement) => statement !== false);
}

/** Finds out whether an unanswered COMMIT succeeded: either all of its keys are in the table, or none. */
async function settleCommit(
  client: MysqlClient,
  { answers, writes }: GroupDecision,
  checkpoint: string,
  cause: unknown,
): Promise<readonly Answer[]> {
  if (writes.keys.length === 0) throw new NotWritten(cause);
  const outcome = await findOutcome(client, writes, checkpoint).catch(() => "unknown" as const);
  if (outcome === "written") return answers;
  if (outcome === "not-written") throw new NotWritten(cause);
  throw new MayBeWritten(answers, cause);
}

async function findOutcome(
  client: MysqlClient,
  { keys }: Writes,
  checkpoint: string,
): Promise<"written" | "not-written" | "unknown"> {
  const writers = await queryRows(client, sql.writersSql(keys.map(({ id }) => id)));
  if (writers.some((row) => readText(row, "checkpoint") === checkpoint)) return "written";
  // A key past its time may have been written, and then purged or recorded again.
  const [clock] = await queryRows(client, sql.NOW_SQL);
  const now = readNumber(clock as MysqlRow, "now_ms");
  return keys.some(({ keptUntil }) => keptUntil > now) ? "not-written" : "unknown";
}
