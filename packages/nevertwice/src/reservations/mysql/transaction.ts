/**
 * A group of actions as one transaction on one connection: locks, one reading of the clock, the decision, what it wrote.
 *
 *   keys ─▶ resources ─▶ commitments ─▶ clock and elapsed holds ─▶ decided ─▶ written ─▶ COMMIT
 *   └────────────────────── any failure: ROLLBACK, nothing was written ──────┘          └─ no answer: settled by the keys
 */
import { randomUUID } from "node:crypto";
import {
  change,
  type MysqlClient,
  type MysqlConnection,
  type Row,
  rowsOf,
} from "../../stores/mysql/client.ts";
import { failure } from "../../stores/mysql/failures.ts";
import { numberOf, textOf } from "../../stores/mysql/row.ts";
import type { Answer } from "../answer.ts";
import type { Asked } from "../asked.ts";
import {
  type Found,
  type KeptCommitment,
  MayBeWritten,
  NotWritten,
  type Rules,
  type Writes,
} from "../ledger.ts";
import * as sql from "../mysql-sql.ts";
import { type Decided, decide, needsOf } from "../reservations.ts";
import {
  checkpointColumns,
  commitmentColumns,
  commitmentOf,
  eventColumns,
  isNone,
  isTooLong,
  keyColumns,
  keyOf,
  resourceColumns,
  resourceOf,
} from "./rows.ts";

/** Fails with `NotWritten` or `MayBeWritten`. */
export async function transactOnce(
  client: MysqlClient,
  group: readonly Asked[],
  rules: Rules,
): Promise<readonly Answer[]> {
  const checkpoint = randomUUID();
  const connection = await client.getConnection().catch((error: unknown) => {
    throw new NotWritten(failure(error));
  });
  const decided = await decideAndWrite(connection, group, rules, checkpoint).catch(async (error: unknown) => {
    throw await rolledBack(connection, error);
  });
  try {
    await change(connection, sql.COMMIT_SQL);
  } catch (error) {
    // Nobody is handed it again: it may be in a transaction still.
    connection.destroy();
    return settled(client, decided, checkpoint, failure(error));
  }
  connection.release();
  return decided.answers;
}

/** A statement alone, at READ COMMITTED. */
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
    throw failure(error);
  }
}

/** By the server itself, if the connection is lost. */
async function rolledBack(connection: MysqlConnection, error: unknown): Promise<NotWritten> {
  try {
    await change(connection, sql.ROLLBACK_SQL);
    connection.release();
  } catch {
    connection.destroy();
  }
  return new NotWritten(failure(error));
}

interface Locked {
  readonly found: Found;
  readonly now: number;
  /** Names of resources that were not there. */
  readonly placeholders: readonly string[];
}

async function decideAndWrite(
  connection: MysqlConnection,
  group: readonly Asked[],
  rules: Rules,
  checkpoint: string,
): Promise<Decided> {
  await change(connection, sql.READ_COMMITTED_SQL);
  await change(connection, sql.BEGIN_SQL);
  const { found, now, placeholders } = await lock(connection, group, rules.namespace);
  const decided = decide(group, found, now, rules, checkpoint);
  await write(connection, decided.writes, checkpoint);
  const written = new Set(decided.writes.resources.map(({ name }) => name));
  const unused = placeholders.filter((name) => !written.has(name));
  if (unused.length > 0) await change(connection, sql.forgetResourcesSql(rules.namespace, unused));
  return decided;
}

async function lock(
  connection: MysqlConnection,
  group: readonly Asked[],
  namespace: string,
): Promise<Locked> {
  const needs = needsOf(group);
  const { keyIds, placements } = needs;
  const ids = needs.commitmentIds.filter((id) => !isTooLong(id));
  // In an order that all share: who waits for a row has none that comes after it.
  await change(connection, sql.lockKeysSql(namespace, keyIds));
  const keys = await rowsOf(connection, sql.readKeysSql(keyIds));
  const names = [...new Set([...needs.resources, ...(await resourcesOf(connection, namespace, ids))])].sort();
  if (names.length > 0) await change(connection, sql.lockResourcesSql(namespace, names));
  const resources =
    names.length === 0 ? [] : await rowsOf(connection, sql.readResourcesSql(namespace, names));
  const commitments =
    ids.length === 0 ? [] : await rowsOf(connection, sql.readCommitmentsSql(namespace, ids));
  const clock = await rowsOf(connection, sql.clockSql(namespace, placements));
  const isThere = (row: Row) => !isNone(row, "state");
  return {
    found: {
      keys: byName(keys.filter((row) => !isNone(row, "answer")).map(keyOf), ({ id }) => id),
      resources: byName(resources.filter(isThere).map(resourceOf), ({ name }) => name),
      commitments: byName(commitments.map(commitmentOf), ({ id }) => id),
      elapsed: elapsedOf(clock.filter(isThere).map(commitmentOf)),
    },
    now: numberOf(clock[0] as Row, "now_ms"),
    placeholders: resources.filter((row) => !isThere(row)).map((row) => textOf(row, "name")),
  };
}

async function resourcesOf(
  connection: MysqlConnection,
  namespace: string,
  ids: readonly string[],
): Promise<readonly string[]> {
  if (ids.length === 0) return [];
  const rows = await rowsOf(connection, sql.resourcesOfSql(namespace, ids));
  return rows.map((row) => textOf(row, "resource"));
}

function byName<T>(rows: readonly T[], nameOf: (row: T) => string): ReadonlyMap<string, T> {
  return new Map(rows.map((row) => [nameOf(row), row]));
}

function elapsedOf(rows: readonly KeptCommitment[]): Found["elapsed"] {
  const elapsed = new Map<string, KeptCommitment[]>();
  for (const row of [...rows].sort((a, b) => a.expiresAt - b.expiresAt)) {
    const others = elapsed.get(row.resource);
    if (others === undefined) elapsed.set(row.resource, [row]);
    else others.push(row);
  }
  return elapsed;
}

async function write(connection: MysqlConnection, writes: Writes, checkpoint: string): Promise<void> {
  const { keys, resources, commitments, events } = writes;
  const statements = [
    keys.length > 0 &&
      sql.upsertSql(
        "nevertwice_reservation_keys",
        keys.map((key) => keyColumns(key, checkpoint)),
      ),
    resources.length > 0 && sql.upsertSql("nevertwice_resources", resources.map(resourceColumns)),
    commitments.length > 0 && sql.upsertSql("nevertwice_commitments", commitments.map(commitmentColumns)),
    events.length > 0 && sql.insertSql("nevertwice_reservation_events", events.map(eventColumns)),
    writes.checkpoint !== undefined &&
      sql.insertSql("nevertwice_checkpoints", [checkpointColumns(writes.checkpoint)]),
  ];
  for (const statement of statements) if (statement !== false) await change(connection, statement);
}

/** The COMMIT was not answered. What it wrote tells whether it was done: all of it or nothing is there. */
async function settled(
  client: MysqlClient,
  { answers, writes }: Decided,
  checkpoint: string,
  cause: unknown,
): Promise<readonly Answer[]> {
  const { keys } = writes;
  // Every answer came from a key that was there before.
  if (keys.length === 0) return answers;
  const outcome = await outcomeOf(client, writes, checkpoint).catch(() => "unknown" as const);
  if (outcome === "written") return answers;
  if (outcome === "not-written") throw new NotWritten(cause);
  throw new MayBeWritten(answers, cause);
}

async function outcomeOf(
  client: MysqlClient,
  { keys }: Writes,
  checkpoint: string,
): Promise<"written" | "not-written" | "unknown"> {
  const writers = await rowsOf(client, sql.writersSql(keys.map(({ id }) => id)));
  if (writers.some((row) => textOf(row, "checkpoint") === checkpoint)) return "written";
  // A key past its time may have been there, and be gone or recorded anew.
  const [clock] = await rowsOf(client, sql.NOW_SQL);
  const now = numberOf(clock as Row, "now_ms");
  return keys.some(({ keptUntil }) => keptUntil > now) ? "not-written" : "unknown";
}
