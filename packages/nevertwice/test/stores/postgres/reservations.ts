/** Reservations on their own database, and the sessions of that database that wait. */
import pg from "pg";
import { onTestFinished, type TestContext } from "vitest";
import {
  type PostgresReservations,
  postgresReservations,
  reservationsSql,
} from "../../../src/reservations/postgres.ts";
import { sharedUrl } from "../../services/services.ts";
import { createDatabase, poolOf, query, until } from "./database.ts";

export async function migrated(context: TestContext): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, reservationsSql());
  return url;
}

/** A store with its own pool, as in another process. */
export function storeOn(url: string): PostgresReservations {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return postgresReservations({ client: pool });
}

/** A foreign transaction that ran these statements and stays open until it is ended. */
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

/** The process ids of the sessions that wait for a lock in this database. */
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

/** The number of rows of each table, placeholders included. */
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
