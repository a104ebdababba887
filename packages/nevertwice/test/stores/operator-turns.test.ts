/**
 * Tests that operators never harm payments, on real databases: twelve slow lists and counts at once, on the pool of ten that the
 * payments of the process use. Together they hold one connection, and the server ends each of them after two seconds.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { RowDataPacket } from "mysql2";
import pg from "pg";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createGuard, type Guard } from "../../src/index.ts";
import { mysqlOutbox } from "../../src/outbox/mysql.ts";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import type { OutboxStore } from "../../src/outbox/store.ts";
import { mysqlReservations } from "../../src/reservations/mysql.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import type { ReservationStore } from "../../src/reservations/store.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { newDatabase, poolOn } from "./mysql/pools.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";

const CONNECTIONS = 10;
const LANES = 20;
/** Far more than a payment takes on a busy machine, and much less than the operator calls together. */
const WORST_P99_MS = 6_000;
const PAYMENT = { operation: "pay" };

interface Scene {
  /** For payments, and for operators: its lists are slow. */
  readonly payments: Guard;
  readonly operators: Guard;
  readonly outbox: OutboxStore;
  readonly reservations: ReservationStore;
  /** How many statements of the pool's connections the server runs at the moment. */
  running(): Promise<number>;
  /** How many of them wait: only those of operators do. */
  waiting(): Promise<number>;
}

const SCENES: Readonly<Record<string, (context: TestContext) => Promise<Scene>>> = {
  async Postgres(context) {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    const migrating = poolOf(url);
    const stores = [postgresStore, postgresOutbox, postgresReservations];
    for (const create of stores) await create({ client: migrating }).migrate();
    await migrating.end();
    // The function that a list compares with takes its time, but only in the namespace of the operators. The indexes were made
    // before, with the function of the server.
    await query(
      url,
      `CREATE SCHEMA slow; CREATE FUNCTION slow.starts_with(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
         IF left(a, 8) = '["slow",' THEN PERFORM pg_sleep(0.2); END IF;
         RETURN left(a, length(b)) = b;
       END $$`,
    );
    const pool = poolOf(url, {
      max: CONNECTIONS,
      application_name: "payments",
      options: "-c search_path=slow,public,pg_catalog",
    });
    onTestFinished(() => pool.end());
    const store = postgresStore({ client: pool, schema: "public" });
    const outbox = postgresOutbox({ client: pool, schema: "public" });
    const reservations = postgresReservations({ client: pool, schema: "public" });
    const locking = new pg.Client(url);
    await locking.connect();
    onTestFinished(() => locking.end());
    await locking.query(
      "BEGIN; LOCK TABLE nevertwice_outbox, nevertwice_commitments IN ACCESS EXCLUSIVE MODE",
    );
    const countWhere = async (condition: string) => {
      const [row] = await query<{ count: string }>(
        url,
        `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'payments' AND ${condition}`,
      );
      return Number(row?.count);
    };
    const running = () => countWhere("state = 'active'");
    const waiting = () => countWhere("wait_event IN ('relation', 'PgSleep')");
    return { ...guardsOn(store), outbox, reservations, running, waiting };
  },

  async MySQL(context) {
    const url = await newDatabase(context);
    const pool = poolOn(context, url, { connectionLimit: CONNECTIONS });
    const store = mysqlStore({ client: pool });
    const outbox = mysqlOutbox({ client: pool });
    const reservations = mysqlReservations({ client: pool });
    for (const each of [store, outbox, reservations]) await each.migrate();
    const locking = await poolOn(context, url).getConnection();
    await locking.query("LOCK TABLES nevertwice_outbox WRITE, nevertwice_commitments WRITE");
    context.onTestFinished(async () => {
      await locking.query("UNLOCK TABLES");
      locking.release();
    });
    const watching = poolOn(context, url);
    const countWhere = async (condition: string) => {
      const [[row]] = await watching.query<RowDataPacket[]>(
        `SELECT COUNT(*) AS count FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() AND ${condition}`,
      );
      return Number(row?.count);
    };
    const running = () => countWhere("command = 'Query'");
    const waiting = () => countWhere("state LIKE 'Waiting for table%'");
    return { ...guardsOn(store), outbox, reservations, running, waiting };
  },
};

function guardsOn(store: Parameters<typeof createGuard>[0]["store"]): Pick<Scene, "payments" | "operators"> {
  const payments = createGuard({ store, namespace: "shop", purgeEveryMs: 0 });
  const operators = createGuard({ store, namespace: "slow", purgeEveryMs: 0 });
  onTestFinished(async () => void (await Promise.all([payments.close(), operators.close()])));
  return { payments, operators };
}

/** The most statements that were seen to wait at once, until the promise settles. */
async function mostWaiting(scene: Scene, over: Promise<unknown>): Promise<number> {
  let isOver = false;
  const ended = over.finally(() => {
    isOver = true;
  });
  let most = 0;
  while (!isOver) {
    most = Math.max(most, await scene.waiting());
    await sleep(50);
  }
  await ended;
  return most;
}

/** Pays on all lanes until the promise settles. Returns how long each payment took. */
async function payUntil(guard: Guard, over: Promise<unknown>): Promise<readonly number[]> {
  let isOver = false;
  const ended = over.finally(() => {
    isOver = true;
  });
  const took: number[] = [];
  const lanes = Array.from({ length: LANES }, async () => {
    while (!isOver) {
      const startedAt = performance.now();
      await guard.run({ ...PAYMENT, key: randomUUID() }, () => "paid");
      took.push(performance.now() - startedAt);
    }
  });
  await Promise.all([ended, ...lanes]);
  return took;
}

describe.each(Object.keys(SCENES))("on %s", (name) => {
  test("slow operator calls at once take one connection and fail no payment, and none of their statements goes on", async (context) => {
    const scene = (await SCENES[name]?.(context)) as Scene;
    const { payments, operators, outbox, reservations } = scene;
    for (let each = 0; each < 20; each++)
      await operators.run({ ...PAYMENT, key: randomUUID() }, () => "paid");
    const calls = Promise.allSettled([
      operators.list({}),
      ...Array.from({ length: 5 }, () => outbox.list("shop", { limit: 10 })),
      ...Array.from({ length: 3 }, () => outbox.figures("shop")),
      ...Array.from({ length: 3 }, () => reservations.commitments({ namespace: "shop", limit: 10 })),
    ]);
    const [took, waiting] = await Promise.all([payUntil(payments, calls), mostWaiting(scene, calls)]);
    expect(waiting).toBe(1);
    const sorted = took.toSorted((a, b) => a - b);
    expect(sorted.length).toBeGreaterThan(LANES);
    expect(sorted[Math.floor(sorted.length * 0.99)]).toBeLessThan(WORST_P99_MS);
    const [list, ...others] = await calls;
    if (list?.status === "rejected") expect(list.reason).toMatchObject({ code: "unavailable" });
    for (const call of others)
      expect(call).toMatchObject({ status: "rejected", reason: { code: "unavailable" } });
    // The lock is still held: nothing but the server has ended them.
    await expect.poll(() => scene.running()).toBe(0);
  });
});
