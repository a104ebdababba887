/** Reservations in new databases, and the locks that others hold there. */
import { setTimeout as pause } from "node:timers/promises";
import type { Pool, RowDataPacket } from "mysql2/promise";
import { type TestContext, vi } from "vitest";
import { type MysqlReservations, mysqlReservations } from "../../../src/reservations/mysql.ts";
import { newDatabase, poolOn } from "./pools.ts";

export async function newReservations(
  context: TestContext,
): Promise<{ url: string; pool: Pool; store: MysqlReservations }> {
  const url = await newDatabase(context);
  const pool = poolOn(context, url);
  const store = mysqlReservations({ client: pool });
  await store.migrate();
  return { url, pool, store };
}

/** Another transaction that locks these rows until it ends. */
export async function locking(pool: Pool, ...statements: readonly string[]) {
  const connection = await pool.getConnection();
  await connection.query("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
  await connection.beginTransaction();
  for (const sql of statements) await connection.query(sql);
  return {
    query: (sql: string) => connection.query(sql),
    async end() {
      await connection.rollback();
      connection.release();
    },
  };
}

/** Resolves once this many statements with this beginning wait for a lock; returns the ids of their connections. */
export async function waiting(pool: Pool, beginning: string, count = 1): Promise<readonly number[]> {
  return vi.waitFor(
    async () => {
      // The server refreshes its list of transactions once 0.1 seconds have passed without a query of it. Two tests that
      // ask at one fixed interval could therefore read an old list for ever.
      await pause(Math.random() * 300);
      const [rows] = await pool.query<RowDataPacket[]>(
        "SELECT id FROM information_schema.processlist JOIN information_schema.innodb_trx ON id = trx_mysql_thread_id " +
          "WHERE db = DATABASE() AND trx_state = 'LOCK WAIT' AND info LIKE ?",
        [`${beginning}%`],
      );
      if (rows.length !== count) throw new Error(`${rows.length} wait, not ${count}`);
      return rows.map(({ id }) => Number(id));
    },
    { interval: 150 },
  );
}

/** How many rows each table has, including placeholders. */
export async function countRows(pool: Pool): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const name of [
    "nevertwice_reservation_keys",
    "nevertwice_resources",
    "nevertwice_commitments",
    "nevertwice_reservation_events",
    "nevertwice_checkpoints",
  ]) {
    const [[row]] = await pool.query<RowDataPacket[]>(`SELECT COUNT(*) AS count FROM ${name}`);
    counts[name.replace(/^nevertwice_(reservation_)?/, "")] = Number(row?.count);
  }
  return counts;
}
