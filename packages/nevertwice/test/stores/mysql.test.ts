/** What the MySQL store adds to the contract: its round trips, its clock, lost races, and the limits of its values. */
import { randomUUID } from "node:crypto";
import * as callbacks from "mysql2";
import type { Pool } from "mysql2/promise";
import { expect, test, vi } from "vitest";
import type { ClaimAnswer } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { type MysqlClient, mysqlStore } from "../../src/stores/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import { startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { newStore, poolOn, poolRunningFirst } from "./mysql/pools.ts";

/** The pool, with an action before each statement of the store. */
function clientWith(pool: Pool, before: (sql: string) => Promise<void>): MysqlClient {
  return {
    query: (options) => pool.query(options),
    async getConnection() {
      const connection = await pool.getConnection();
      return {
        async query(options) {
          await before(options.sql);
          return connection.query(options);
        },
        release: () => connection.release(),
        destroy: () => connection.destroy(),
      };
    },
  };
}

test("every step takes its documented round trips, each of one statement", async (context) => {
  const { url, store: prepared } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlStore({ client: poolOn(context, proxy.url) });
  await store.read("warm");
  const counter = proxy.countRequests("mysql");
  let before = 0;
  const trips = async (step: () => Promise<unknown>): Promise<number> => {
    await step();
    const taken = counter.count - before;
    before = counter.count;
    return taken;
  };
  const first = claimOf("a");
  const { id, token } = first;
  expect(await trips(() => store.claim(first))).toBe(2);
  expect(await trips(() => store.claim(claimOf("a")))).toBe(1);
  expect(await trips(() => store.renew({ id, token, leaseMs: 60_000 }))).toBe(2);
  expect(await trips(() => store.complete({ id, token, outcome: "done", retentionMs: 1_000 }))).toBe(2);
  // A server without a binary log shows an outcome before it is on disk, so a replay makes one more commit.
  expect(await trips(() => store.complete({ id, token, outcome: "done", retentionMs: 1_000 }))).toBe(2);
  expect(await trips(() => store.claim(claimOf("a")))).toBe(2);
  expect(await trips(() => store.read(id))).toBe(2);
  const other = claimOf("b");
  await prepared.claim(other);
  expect(await trips(() => store.abandon({ id: other.id, token: other.token, as: "unknown" }))).toBe(2);
  expect(await trips(() => store.claim(claimOf("b")))).toBe(2);
  expect(await trips(() => store.purge(10))).toBe(1);
  expect(counter.names.every((name) => name === "Query")).toBe(true);
});

test("checks the server once per connection, even when many calls are the first", async (context) => {
  const { url } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlStore({ client: poolOn(context, proxy.url, { connectionLimit: 3 }) });
  const counter = proxy.countRequests("mysql");
  await Promise.all(Array.from({ length: 20 }, (_, i) => store.read(`id-${i}`)));
  const isQuery = (name: string) => name === "Query";
  // One for the version of the tables, one for each connection, and the twenty reads.
  expect(counter.names.filter(isQuery)).toHaveLength(1 + 3 + 20);
});

test("each of fifty keys has one owner among eight claimers on two pools", {
  timeout: 120_000,
}, async (context) => {
  const { url, store } = await newStore(context);
  const stores = [store, mysqlStore({ client: poolOn(context, url, { flags: ["-FOUND_ROWS"] }) })];
  const keys = Array.from({ length: 50 }, () => randomUUID());
  const claims = keys.flatMap((key) =>
    Array.from({ length: 8 }, async (_, i) => {
      const request = claimOf(key);
      return { request, answer: await (stores[i % 2] as typeof store).claim(request) };
    }),
  );
  const owners = (await Promise.all(claims)).filter(({ answer }) => answer.status === "new");
  expect(owners.map(({ request }) => request.parts.key).sort()).toEqual(keys.sort());
  for (const { request, answer } of owners) {
    const { fence } = answer as ClaimAnswer & { status: "new" };
    expect(await store.read(request.id)).toMatchObject({ token: request.token, fence });
  }
});

test("a step that is overtaken between its read and its write decides again", async (context) => {
  const { pool, store } = await newStore(context);
  const owner = claimOf("a");
  const { id, token } = owner;
  await store.claim(owner);
  const racing = { once: async () => {} };
  const client = clientWith(pool, async (sql) => {
    if (/^(UPDATE|INSERT|DELETE)/.test(sql)) await racing.once();
  });
  const late = mysqlStore({ client });
  const meanwhile = (action: () => Promise<unknown>) => {
    racing.once = async () => {
      racing.once = async () => {};
      await action();
    };
  };
  meanwhile(() => store.abandon({ id, token, as: "released" }));
  expect(await late.complete({ id, token, outcome: "late", retentionMs: 1_000 })).toBe(false);
  const next = claimOf("a");
  meanwhile(() => store.claim(next));
  expect(await late.claim(claimOf("a"))).toMatchObject({ status: "pending" });
  meanwhile(() => store.complete({ id, token: next.token, outcome: "done", retentionMs: 3_600_000 }));
  expect(await late.renew({ id, token: next.token, leaseMs: 60_000 })).toBe(false);
  const first = claimOf("b");
  meanwhile(() => store.claim(claimOf("b")));
  expect(await late.claim(first)).toMatchObject({ status: "pending" });
});

test("a step that loses every race ends as unavailable, never as new", async (context) => {
  const { pool, store } = await newStore(context);
  await store.claim(claimOf("a", { token: "owner" }));
  await store.abandon({ id: "id-a", token: "owner", as: "unknown" });
  const client = clientWith(pool, async (sql) => {
    if (sql.startsWith("UPDATE"))
      await pool.query("UPDATE nevertwice_records SET mark = UUID() WHERE id = 'id-a'");
  });
  await expect(mysqlStore({ client }).claim(claimOf("a"))).rejects.toMatchObject({ code: "unavailable" });
});

test("a lease counts from the write, not from the start of the wait for its row", async (context) => {
  const { pool, store } = await newStore(context);
  const owner = claimOf("a", { leaseMs: 1_000 });
  await store.claim(owner);
  const blocker = await pool.getConnection();
  await blocker.beginTransaction();
  await blocker.query("SELECT * FROM nevertwice_records WHERE id = 'id-a' FOR UPDATE");
  const renewed = store.renew({ id: owner.id, token: owner.token, leaseMs: 60_000 });
  await new Promise((resolve) => setTimeout(resolve, 700));
  await blocker.commit();
  blocker.release();
  expect(await renewed).toBe(true);
  const record = await store.read(owner.id);
  expect(record?.leaseLeftMs).toBeGreaterThan(59_500);
  expect(record?.leaseLeftMs).toBeLessThanOrEqual(60_000);
});

test("a step is repeated when a lock wait times out", async (context) => {
  const { url, store } = await newStore(context);
  const owner = claimOf("a");
  await store.claim(owner);
  const impatient = mysqlStore({
    client: poolRunningFirst(context, url, "SET SESSION innodb_lock_wait_timeout = 1"),
  });
  const blocker = await poolOn(context, url).getConnection();
  await blocker.beginTransaction();
  await blocker.query("SELECT * FROM nevertwice_records WHERE id = 'id-a' FOR UPDATE");
  const step = { id: owner.id, token: owner.token, outcome: "done", retentionMs: 60_000 };
  const completed = impatient.complete(step);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await blocker.commit();
  blocker.release();
  expect(await completed).toBe(true);
});

test("callers in different time zones use the same clock", async (context) => {
  const { url, store } = await newStore(context);
  const east = mysqlStore({ client: poolRunningFirst(context, url, "SET SESSION time_zone = '+13:00'") });
  const west = mysqlStore({ client: poolRunningFirst(context, url, "SET SESSION time_zone = '-12:00'") });
  await east.claim(claimOf("a"));
  const seen = await Promise.all([east, west, store].map((each) => each.read("id-a")));
  for (const record of seen) {
    expect(record?.leaseLeftMs).toBeGreaterThan(55_000);
    expect(record?.leaseLeftMs).toBeLessThanOrEqual(60_000);
  }
  expect(Math.abs((seen[0]?.claimedAt ?? 0) - Date.now())).toBeLessThan(5_000);
});

test("the hour that repeats at the end of summer time counts as two hours", async (context) => {
  vi.stubEnv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3");
  const server = await startFor(context, () => startMariadb({ clock: true }));
  server.stepClock(Date.UTC(2027, 9, 31, 0, 30) - Date.now());
  const pool = poolOn(context, server.url);
  const store = mysqlStore({ client: pool });
  await store.migrate();
  const [[local]] = (await pool.query("SELECT HOUR(SYSDATE()) AS hour")) as never as [[{ hour: number }]];
  expect(local.hour).toBe(2);
  await store.claim(claimOf("a", { leaseMs: 600_000 }));
  expect((await store.read("id-a"))?.state).toBe("pending");
  server.stepClock(3_600_000);
  expect(
    ((await pool.query("SELECT HOUR(SYSDATE()) AS hour")) as never as [[{ hour: number }]])[0][0].hour,
  ).toBe(2);
  expect((await store.read("id-a"))?.state).toBe("lapsed");
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new", tookOver: true });
});

test("an outcome too large for a packet is refused, and a guard completes it as not kept", async (context) => {
  const settings = { "max-allowed-packet": 524_288 };
  const server = await startFor(context, () => startMariadb({ settings }));
  const store = mysqlStore({ client: poolOn(context, server.url) });
  await store.migrate();
  const limit = store.maxOutcomeBytes ?? 0;
  expect(limit).toBeGreaterThan(200_000);
  expect(limit).toBeLessThan(262_144);
  const owner = claimOf("a");
  await store.claim(owner);
  const step = { id: owner.id, token: owner.token, retentionMs: 60_000 };
  await expect(store.complete({ ...step, outcome: "x".repeat(limit + 1) })).rejects.toMatchObject({
    code: "options-invalid",
  });
  expect(await store.complete({ ...step, outcome: "x".repeat(limit) })).toBe(true);
  expect((await store.read(owner.id))?.outcome).toHaveLength(limit);

  const guard = createGuard({ store, namespace: "n" });
  const request = { operation: "o", key: "large" };
  await guard.run(request, () => "x".repeat(limit));
  await expect(guard.run(request, () => "again")).rejects.toMatchObject({ code: "not-kept" });
  await guard.close();
});

test("a purge leaves a record that was claimed again after it was found", async (context) => {
  const { pool, store } = await newStore(context);
  const past = claimOf("a");
  await store.claim(past);
  await store.complete({ id: past.id, token: past.token, outcome: "done", retentionMs: 1 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const client = clientWith(pool, async (sql) => {
    if (sql.startsWith("DELETE")) await store.claim(claimOf("a"));
  });
  expect(await mysqlStore({ client }).purge(10)).toEqual({ removed: 0, more: false });
  expect((await store.read(past.id))?.state).toBe("pending");
});

test("ids and tokens that a collation treats as equal stay distinct", async (context) => {
  const { store } = await newStore(context);
  const alike = ["a", "A", "a ", "\u00e1", "a\u0301", "\u00aa"];
  for (const id of alike) expect(await store.claim({ ...claimOf("a"), id })).toMatchObject({ status: "new" });
  const owner = claimOf("b", { token: "t\u{1f511}" });
  await store.claim(owner);
  expect(await store.claim(owner)).toMatchObject({ status: "new", number: 1 });
  for (const token of ["T\u{1f511}", "t\u{1f511} ", "t?"])
    expect(await store.renew({ id: owner.id, token, leaseMs: 1_000 })).toBe(false);
});

test("ids that are too long are refused", async (context) => {
  const { store } = await newStore(context);
  await expect(store.claim({ ...claimOf("a"), id: "i".repeat(256) })).rejects.toMatchObject({
    code: "options-invalid",
  });
  expect(await store.claim({ ...claimOf("a"), id: "i".repeat(255) })).toMatchObject({ status: "new" });
});

test("closing the store does not end the pool", async (context) => {
  const { pool, store } = await newStore(context);
  await store.close();
  await expect(pool.query("SELECT 1")).resolves.toBeDefined();
});

test("a single connection is refused, and so is a value that is not a pool of promises", async (context) => {
  const { url, pool } = await newStore(context);
  const connection = await pool.getConnection();
  const withCallbacks = callbacks.createPool({ uri: url });
  context.onTestFinished(() => new Promise<void>((resolve) => withCallbacks.end(() => resolve())));
  const refused = (client: unknown) => {
    try {
      mysqlStore({ client: client as Pool });
    } catch (error) {
      return error;
    }
    return undefined;
  };
  expect(refused(connection)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("Hand in a pool"),
  });
  connection.release();
  expect(refused(withCallbacks)).toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("client.promise()"),
  });
  for (const nothing of [undefined, null, {}, "mysql://", { query: () => {} }])
    expect(refused(nothing)).toMatchObject({ code: "options-invalid" });
  expect(() => mysqlStore({ client: pool, prefix: "x" } as never)).toThrow(/no option called "prefix"/);
});
