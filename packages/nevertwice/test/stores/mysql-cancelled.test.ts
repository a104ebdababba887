/** Tests the MySQL store when the server or the network does not answer: a cancelled call leaves nothing behind. */
import type { Pool, RowDataPacket } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { mysqlReservations } from "../../src/reservations/mysql.ts";
import { type MysqlStore, mysqlStore } from "../../src/stores/mysql.ts";
import { openStore } from "../../src/stores/open.ts";
import { startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { newStore, poolOn } from "./mysql/pools.ts";

const SLOW = { timeout: 120_000 };
const STORE_TIMEOUT_MS = 1_000;
const CONNECTIONS = 4;
const REQUESTS = Array.from({ length: 2 * CONNECTIONS }, (_, i) => ({ operation: "o", key: `${i}` }));

/** How many statements on the store's tables the server is running. */
async function running(pool: Pool, url: string): Promise<number> {
  const [rows] = await pool.query<RowDataPacket[]>(
    "SELECT id FROM information_schema.processlist WHERE db = ? AND command = 'Query' AND info LIKE '%nevertwice_records%' AND id <> CONNECTION_ID()",
    [new URL(url).pathname.slice(1)],
  );
  return rows.length;
}

/** Ways to lock the table; each returns the function that unlocks it. */
const LOCKS: Readonly<Record<string, (blocker: Pool) => Promise<() => Promise<unknown>>>> = {
  "the table is locked": async (blocker) => {
    const connection = await blocker.getConnection();
    await connection.query("LOCK TABLES nevertwice_records WRITE");
    return async () => {
      await connection.query("UNLOCK TABLES");
      connection.release();
    };
  },
  "another transaction holds the rows": async (blocker) => {
    const connection = await blocker.getConnection();
    await connection.beginTransaction();
    await connection.query("SELECT * FROM nevertwice_records FOR UPDATE");
    return async () => {
      await connection.commit();
      connection.release();
    };
  },
};

function guardOn(context: TestContext, store: MysqlStore) {
  const guard = createGuard({ store, namespace: "n", storeTimeoutMs: STORE_TIMEOUT_MS, drainMs: 0 });
  context.onTestFinished(async () => void (await guard.close()));
  return guard;
}

for (const [name, lock] of Object.entries(LOCKS)) {
  test(
    `stuck-store: while ${name}, calls end, and so do their connections and statements`,
    SLOW,
    async (context) => {
      const { url, pool: direct, store: prepared } = await newStore(context);
      // Lapsed records, so that a claim has a row to replace.
      const before = createGuard({ store: prepared, namespace: "n", onFailure: "unknown" });
      const fail = () => Promise.reject(new Error("the outcome is unknown"));
      for (const request of REQUESTS) await before.run(request, fail).catch(() => {});
      const pool = poolOn(context, url, { connectionLimit: CONNECTIONS });
      const guard = guardOn(context, mysqlStore({ client: pool }));
      const unlock = await lock(direct);
      const results = await Promise.all(REQUESTS.map((request) => guard.tryRun(request, () => "done")));
      expect(results.map(({ status }) => status)).toEqual(results.map(() => "unavailable"));
      await unlock();
      // As soon as the lock is released, because the pool has connections again.
      expect(await guard.run({ operation: "o", key: "next" }, () => "done")).toBe("done");
      await expect.poll(() => running(direct, url), { timeout: 60_000 }).toBe(0);
    },
  );
}

test(
  "stuck-store: a cancelled statement ends on the server while the lock is still held",
  SLOW,
  async (context) => {
    const { url, pool: direct } = await newStore(context);
    const store = mysqlStore({ client: poolOn(context, url, { connectionLimit: 1 }) });
    await store.read("warm");
    const unlock = await (LOCKS["the table is locked"] as NonNullable<(typeof LOCKS)[string]>)(direct);
    const giveUp = new AbortController();
    const claimed = store.claim({ ...claimOf("a"), signal: giveUp.signal });
    await expect.poll(() => running(direct, url), { timeout: 60_000 }).toBe(1);
    giveUp.abort();
    await expect(claimed).rejects.toMatchObject({ code: "unavailable" });
    await expect.poll(() => running(direct, url), { timeout: 60_000 }).toBe(0);
    await unlock();
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
  },
);

test(
  "stuck-store: a cancelled call that waits for a connection of the pool ends, and takes none later",
  SLOW,
  async (context) => {
    const { url } = await newStore(context);
    const pool = poolOn(context, url, { connectionLimit: 1 });
    const store = mysqlStore({ client: pool });
    await store.read("warm");
    const taken = await pool.getConnection();
    const giveUp = new AbortController();
    const reading = store.read("a", { signal: giveUp.signal });
    giveUp.abort();
    await expect(reading).rejects.toMatchObject({ code: "unavailable" });
    taken.release();
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
  },
);

test(
  "silent-network: after the network dropped every connection silently, one call may fail and the next succeeds",
  SLOW,
  async (context) => {
    const { url } = await newStore(context);
    const proxy = await startFor(context, () => startProxy(url));
    const pool = poolOn(context, proxy.url, { connectionLimit: CONNECTIONS });
    const store = mysqlStore({ client: pool });
    const guard = guardOn(context, store);
    await Promise.all(Array.from({ length: CONNECTIONS * 5 }, (_, i) => store.read(`${i}`)));
    expect(proxy.connections).toBe(CONNECTIONS);
    proxy.silence();
    // The engine repeats the call, which may already succeed then.
    await guard.tryRun({ operation: "o", key: "a" }, () => "done");
    expect(await guard.run({ operation: "o", key: "b" }, () => "done")).toBe("done");
  },
);

test("silent-network: a store opened by its URL recovers", SLOW, async (context) => {
  const { url } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = await openStore(proxy.url);
  context.onTestFinished(() => store.close());
  const guard = createGuard({ store, namespace: "n", storeTimeoutMs: STORE_TIMEOUT_MS, drainMs: 0 });
  await Promise.all(Array.from({ length: 50 }, (_, i) => store.read(`${i}`)));
  proxy.silence();
  // The engine repeats the call, which may already succeed then.
  await guard.tryRun({ operation: "o", key: "a" }, () => "done");
  expect(await guard.run({ operation: "o", key: "b" }, () => "done")).toBe("done");
  await guard.close();
});

test("silent-network: a first call without an answer does not delay the next ones", SLOW, async (context) => {
  const { url } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const pool = poolOn(context, proxy.url);
  const guard = guardOn(context, mysqlStore({ client: pool }));
  // The application has used its pool before the store does.
  await Promise.all(Array.from({ length: 5 }, () => pool.query("SELECT 1")));
  proxy.silence();
  // The engine repeats the call, which may already succeed then.
  await guard.tryRun({ operation: "o", key: "a" }, () => "done");
  expect(await guard.run({ operation: "o", key: "b" }, () => "done")).toBe("done");
});

test("silent-network: reservations recover too", SLOW, async (context) => {
  const { url } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlReservations({ client: poolOn(context, proxy.url, { connectionLimit: CONNECTIONS }) });
  await store.migrate();
  await Promise.all(Array.from({ length: CONNECTIONS * 2 }, () => store.now()));
  proxy.silence();
  await expect(store.now()).rejects.toMatchObject({ code: "unavailable" });
  // One call was enough to suspect all connections of the pool.
  expect(await store.now()).toBeGreaterThan(0);
});
