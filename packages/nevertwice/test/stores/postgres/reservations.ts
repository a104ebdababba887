/** Reservations on a database of their own, actions as they are handed to a store, and who waits for whom there. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { onTestFinished, type TestContext } from "vitest";
import { identityOf } from "../../../src/core/identity.ts";
import { type ActionName, type Asked, digestOf, type Parameters } from "../../../src/reservations/asked.ts";
import type { Rules } from "../../../src/reservations/ledger.ts";
import {
  type PostgresReservations,
  postgresReservations,
  reservationsSql,
} from "../../../src/reservations/postgres.ts";
import { sharedUrl } from "../../services/services.ts";
import { createDatabase, poolOf, query, until } from "./database.ts";

const HOUR_MS = 3_600_000;
export const NAMESPACE = "n";

export const RULES: Rules = {
  namespace: NAMESPACE,
  windowMs: HOUR_MS,
  historyMs: 0,
  maxDurationMs: HOUR_MS,
  available: undefined,
};

export async function migrated(context: TestContext): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, reservationsSql());
  return url;
}

/** With a pool of its own: another process, as it were. */
export function storeOn(url: string): PostgresReservations {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return postgresReservations({ client: pool });
}

export function asked(action: ActionName, parameters: Parameters, key: string = randomUUID()): Asked {
  const { id: keyId } = identityOf({ namespace: NAMESPACE, scope: "", operation: "test", key });
  const digest = digestOf(action, parameters);
  return { action, parameters, digest, keyId, namespace: NAMESPACE, scope: "", key, newId: randomUUID() };
}

export function hold(
  resource: string,
  more: { units?: number; durationMs?: number; key?: string } = {},
): Asked {
  const { key, ...rest } = more;
  return asked("placeHold", { resource, requester: "ann", durationMs: HOUR_MS, units: 1, ...rest }, key);
}

/** Somebody's transaction that has done this, until it is let go. */
export async function holding(url: string, text: string): Promise<() => Promise<void>> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  await client.query("BEGIN");
  await client.query(text);
  let isOver = false;
  const letGo = async () => {
    if (isOver) return;
    isOver = true;
    await client.query("ROLLBACK");
    await client.end();
  };
  onTestFinished(letGo);
  return letGo;
}

export const LOCK_ROOM = "SELECT FROM nevertwice_resources WHERE name = 'room' FOR UPDATE";

/** The process ids of those who wait for a lock in this database. */
async function waiting(url: string): Promise<number[]> {
  const rows = await query<{ pid: number }>(
    url,
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY pid",
  );
  return rows.map(({ pid }) => pid);
}

export async function untilWaiting(url: string, count: number): Promise<number[]> {
  let pids: number[] = [];
  await until(async () => {
    pids = await waiting(url);
    return pids.length === count;
  });
  return pids;
}

/** How many rows there are, also of nothing but a name. */
export async function rowCounts(url: string): Promise<Record<string, number>> {
  const [row] = await query<Record<string, number>>(
    url,
    `SELECT (SELECT count(*)::int FROM nevertwice_reservation_keys) AS keys,
      (SELECT count(*)::int FROM nevertwice_resources) AS resources,
      (SELECT count(*)::int FROM nevertwice_commitments) AS commitments,
      (SELECT count(*)::int FROM nevertwice_reservation_events) AS events,
      (SELECT count(*)::int FROM nevertwice_checkpoints) AS checkpoints`,
  );
  return row as Record<string, number>;
}
