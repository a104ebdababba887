/** Reservations on real databases that have a table `ledger`, and transactions of an application on them. */
import { onTestFinished, type TestContext } from "vitest";
import { createReservations, type Reservations } from "../../../src/reservations/index.ts";
import { mysqlReservations } from "../../../src/reservations/mysql.ts";
import type { ReservationStore } from "../../../src/reservations/store.ts";
import { poolOn } from "../mysql/pools.ts";
import { newReservations } from "../mysql/reservations.ts";
import { poolOf, query } from "../postgres/database.ts";
import { migrated, storeOn } from "../postgres/reservations.ts";
import { HOUR_MS } from "../reservation-requests.ts";

export type Execute = (text: string) => Promise<unknown>;
/** Runs `body` in a transaction, which commits if it resolves. */
export type InTransaction = <T>(body: (tx: unknown, execute: Execute) => Promise<T>) => Promise<T>;

export interface Scene {
  readonly url: string;
  readonly store: ReservationStore;
  readonly desk: Reservations;
  /** Reservations of another process. */
  open(): Reservations;
  rows(): Promise<number>;
}

export const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

function openDesk(store: ReservationStore): Reservations {
  return createReservations({ store, windowMs: HOUR_MS, purgeEveryMs: 0, actionMs: 20_000 });
}

export async function onPostgres(context: TestContext): Promise<Scene> {
  const url = await migrated(context);
  await query(url, "CREATE TABLE ledger (entry text NOT NULL)");
  const store = storeOn(url);
  const rows = async () =>
    Number((await query<{ n: string }>(url, "SELECT count(*) AS n FROM ledger"))[0]?.n);
  return { url, store, desk: openDesk(store), open: () => openDesk(storeOn(url)), rows };
}

export async function onMysql(context: TestContext): Promise<Scene> {
  const { url, pool, store } = await newReservations(context);
  await pool.query("CREATE TABLE ledger (entry VARCHAR(64) NOT NULL) ENGINE = InnoDB");
  const rows = async () => {
    const [[row]] = (await pool.query("SELECT COUNT(*) AS n FROM ledger")) as unknown as [[{ n: number }]];
    return Number(row?.n);
  };
  const open = () => openDesk(mysqlReservations({ client: poolOn(context, url) }));
  return { url, store, desk: openDesk(store), open, rows };
}

function pgTransactions(url: string): InTransaction {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return async (body) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const value = await body(client, (text) => client.query(text));
      await client.query("COMMIT");
      return value;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
}

function mysqlTransactions(context: TestContext, url: string): InTransaction {
  const pool = poolOn(context, url);
  return async (body) => {
    const connection = await pool.getConnection();
    await connection.beginTransaction();
    try {
      const value = await body(connection, (text) => connection.query(text));
      await connection.commit();
      return value;
    } catch (error) {
      await connection.rollback();
      throw error;
    } finally {
      connection.release();
    }
  };
}

export interface Kind {
  on(context: TestContext): Promise<Scene>;
  connect(context: TestContext, url: string): InTransaction;
}

export const POSTGRES: Kind = { on: onPostgres, connect: (_, url) => pgTransactions(url) };
export const MARIADB: Kind = { on: onMysql, connect: mysqlTransactions };
export const SERVERS: Readonly<Record<string, Kind>> = { Postgres: POSTGRES, MariaDB: MARIADB };
