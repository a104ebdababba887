/** Tests reservations on MariaDB when a connection breaks, a reply is lost, or the server is not as it should be. */
import type { Pool, RowDataPacket } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { type MysqlClient, mysqlReservations, reservationsSql } from "../../src/reservations/mysql.ts";
import { MayBeWritten, NotWritten } from "../../src/reservations/store.ts";
import { startMariadb } from "../services/mariadb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { newDatabase, newStore, poolOn, poolRunningFirst } from "./mysql/pools.ts";
import { countRows, locking, newReservations, waiting } from "./mysql/reservations.ts";
import { asked, HOUR_MS, NOTHING, ONE_HOLD, RULES, toHold } from "./reservation-requests.ts";

const unavailable = { code: "unavailable", retryable: true };

/** A store with one connection through a proxy, and a direct pool to inspect the server. */
async function throughProxy(context: TestContext) {
  const { url, pool } = await newReservations(context);
  const proxy = await startFor(context, () => startProxy(url));
  const proxied = poolOn(context, proxy.url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: proxied });
  await store.now();
  return { store, direct: pool, proxied, proxy };
}

/** The packet of a query: its command and its text. */
const COMMIT: Filter = (chunk) => chunk.includes("\u0003COMMIT");

/** Checks that the connection is in no transaction and has the isolation level of its pool. */
async function expectUntouched(pool: Pool): Promise<void> {
  const [[row]] = await pool.query<RowDataPacket[]>(
    "SELECT @@in_transaction AS open, @@tx_isolation AS level",
  );
  expect([Number(row?.open), row?.level]).toEqual([0, "REPEATABLE-READ"]);
}

test("lost-reply: an unanswered COMMIT that succeeded is answered, and its key returns the same answer", async (context) => {
  const { store, direct, proxied, proxy } = await throughProxy(context);
  const hold = toHold("room");
  proxy.cutReply(1, COMMIT);
  expect(await store.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
  expect(await countRows(direct)).toEqual(ONE_HOLD);
  proxy.cutReply(1, COMMIT);
  expect(await store.transact([{ ...hold, newId: "other" }], RULES)).toEqual([{ ok: true, id: hold.newId }]);
  await expectUntouched(proxied);
});

test("lost-reply: a COMMIT that never arrived is reported as not written", async (context) => {
  const { store, direct, proxied, proxy } = await throughProxy(context);
  proxy.cutRequest(1, COMMIT);
  const lost = store.transact([toHold("room")], RULES);
  await expect(lost).rejects.toBeInstanceOf(NotWritten);
  await expect(lost).rejects.toMatchObject({ cause: unavailable });
  expect(await countRows(direct)).toEqual(NOTHING);
  await expectUntouched(proxied);
});

test("lost-reply: a COMMIT is reported as unknown, with the decision, if the server is gone after it", async (context) => {
  const { store, direct, proxy } = await throughProxy(context);
  const hold = toHold("room");
  proxy.refuse();
  proxy.cutReply(1, COMMIT);
  const lost = store.transact([hold], RULES);
  await expect(lost).rejects.toBeInstanceOf(MayBeWritten);
  await expect(lost).rejects.toMatchObject({ answers: [{ ok: true, id: hold.newId }], cause: unavailable });
  proxy.heal();
  expect(await countRows(direct)).toEqual(ONE_HOLD);
  expect(await store.transact([{ ...hold, newId: "other" }], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("late-writer: the store waits for a COMMIT that is still running", async (context) => {
  const { direct, proxied, proxy } = await throughProxy(context);
  const connection = await proxied.getConnection();
  const query = connection.query.bind(connection) as unknown as (options: { sql: string }) => Promise<never>;
  let isLost = false;
  // The COMMIT is held back and the connection lost; the next connection works.
  const doomed = {
    query(options: { sql: string }) {
      const isCommit = options.sql === "COMMIT";
      if (isCommit) proxy.holdRequests();
      const reply = query(options);
      if (isCommit) setTimeout(() => proxy.cutAll(), 100);
      isLost ||= isCommit;
      return reply;
    },
    release() {},
    destroy: () => connection.destroy(),
  };
  const client: MysqlClient = {
    query: direct.query.bind(direct) as never,
    getConnection: async () => (isLost ? direct.getConnection() : doomed),
  };
  const store = mysqlReservations({ client });
  const hold = toHold("room");
  const answers = store.transact([hold], RULES);
  await waiting(direct, "SELECT checkpoint FROM nevertwice_reservation_keys");
  proxy.releaseRequests();
  expect(await answers).toEqual([{ ok: true, id: hold.newId }]);
  expect(await countRows(direct)).toEqual(ONE_HOLD);
});

test("lost-reply: whichever reply is lost, everything was written or nothing", async (context) => {
  const { store, direct, proxied, proxy } = await throughProxy(context);
  await store.transact([asked("declare", { resource: "room", capacity: 100 })], RULES);
  let held = 0;
  for (const side of ["cutReply", "cutRequest"] as const)
    for (let trip = 1; trip <= 13; trip++) {
      await store.now();
      let left = trip;
      proxy[side](1, () => --left === 0);
      const answers = await store.transact([toHold("room")], RULES).catch((error: unknown) => error);
      if (Array.isArray(answers)) held++;
      else expect(answers).toBeInstanceOf(NotWritten);
      proxy.heal();
      const counts = await countRows(direct);
      expect([side, trip, counts]).toEqual([
        side,
        trip,
        { keys: held + 1, resources: 1, commitments: held, events: held + 1, checkpoints: held + 1 },
      ]);
    }
  // Only the last reply belongs to a committed transaction.
  expect(held).toBe(1);
  await expectUntouched(proxied);
});

test("a connection that is killed during a transaction leaves no rows", async (context) => {
  const { url, pool, store: other } = await newReservations(context);
  await other.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const mortal = poolOn(context, url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: mortal });
  const blocker = await locking(pool, "SELECT * FROM nevertwice_resources FOR UPDATE");
  const hold = toHold("room");
  const killed = store.transact([hold, toHold("elsewhere")], RULES).catch((error: unknown) => error);
  const [id] = await waiting(pool, "INSERT INTO nevertwice_resources");
  await pool.query(`KILL CONNECTION ${id}`);
  expect(await killed).toBeInstanceOf(NotWritten);
  await blocker.end();
  expect(await countRows(pool)).toEqual({ ...NOTHING, keys: 1, resources: 1, events: 1, checkpoints: 1 });
  expect(await store.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("an availability function that throws rolls back everything, and the connection keeps its settings", async (context) => {
  const { url, pool, store } = await newReservations(context);
  const only = poolOn(context, url, { connectionLimit: 1 });
  const rules = {
    ...RULES,
    available() {
      throw new Error("no answer");
    },
  };
  const failed = mysqlReservations({ client: only }).transact([toHold("room")], rules);
  await expect(failed).rejects.toBeInstanceOf(NotWritten);
  await expect(failed).rejects.toMatchObject({ cause: { message: "no answer" } });
  expect(await countRows(pool)).toEqual(NOTHING);
  await expectUntouched(only);
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("a transaction that waits too long for a lock is reported as not written, and a retry works", async (context) => {
  const { url, pool, store } = await newReservations(context);
  await store.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const client = poolRunningFirst(context, url, "SET SESSION innodb_lock_wait_timeout = 1");
  const impatient = mysqlReservations({ client });
  const blocker = await locking(pool, "SELECT * FROM nevertwice_resources FOR UPDATE");
  const hold = toHold("room");
  const late = impatient.transact([hold], RULES);
  await expect(late).rejects.toBeInstanceOf(NotWritten);
  await expect(late).rejects.toMatchObject({ cause: unavailable });
  await blocker.end();
  expect(await countRows(pool)).toMatchObject({ keys: 1, commitments: 0 });
  expect(await impatient.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("names are compared byte by byte with any character set and SQL mode of the connection", async (context) => {
  const { url, store } = await newReservations(context);
  const client = poolRunningFirst(
    context,
    url,
    "SET NAMES latin1, SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
  );
  const odd = mysqlReservations({ client });
  const names = [
    "cafe",
    "CAFE",
    "café",
    "cafe\u0301",
    "cafe ",
    " cafe",
    "ca\\fe",
    'ca"fe',
    "\u{1f511}",
    "\u{1f512}",
  ];
  for (const answer of await odd.transact(
    names.map((name) => toHold(name)),
    RULES,
  ))
    expect(answer.ok).toBe(true);
  const { rows } = await store.resources({ namespace: "n", limit: 100 });
  expect(rows.map(({ name }) => name).sort()).toEqual([...names].sort());
  expect((await odd.commitments({ namespace: "n", resource: "CAFE", limit: 9 })).rows).toHaveLength(1);
});

test("an id that is too long is not-known, and parameters that JSON cannot store are rejected and recorded", async (context) => {
  const { store } = await newReservations(context);
  const group = [
    asked("confirm", { id: "x".repeat(300) }),
    asked("giveBack", { id: "x".repeat(300) }),
    toHold("room", { units: 1n }),
  ];
  const answers = await store.transact(group, RULES);
  expect(answers).toMatchObject([
    { reason: "not-known" },
    { reason: "not-known" },
    { reason: "invalid-request" },
  ]);
  expect(await store.transact(group, RULES)).toEqual(answers);
});

test("tables are created by concurrent migrations, next to those of claims, or by hand", async (context) => {
  const { url, pool } = await newStore(context);
  const store = mysqlReservations({ client: pool });
  const missing = { code: "store-unsafe", message: expect.stringContaining("Run migrate() once") };
  await expect(store.now()).rejects.toMatchObject(missing);
  await expect(store.transact([toHold("room")], RULES)).rejects.toMatchObject({ cause: missing });
  expect((await store.settings()).refused).toContain("run migrate()");
  const stores = Array.from({ length: 4 }, () => mysqlReservations({ client: poolOn(context, url) }));
  await Promise.all(stores.map((each) => each.migrate()));
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);

  const byHand = poolOn(context, await newDatabase(context), { multipleStatements: true });
  await byHand.query(reservationsSql());
  await byHand.query(reservationsSql());
  const other = mysqlReservations({ client: byHand });
  expect(await other.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("a single connection, a callback pool and an unknown option are rejected", async (context) => {
  const { pool } = await newReservations(context);
  const connection = await pool.getConnection();
  expect(() => mysqlReservations({ client: connection as never })).toThrow(/single connection/);
  expect(() => mysqlReservations({ client: pool.pool as never })).toThrow(/callbacks/);
  expect(() => mysqlReservations({ client: pool, prefix: "x" } as never)).toThrow(/prefix/);
  expect(() => mysqlReservations({} as never)).toThrow(/client/);
  connection.release();
});

test("the doctor reads the settings, and rejects a statement-based binary log and missing tables", async (context) => {
  const settings = { "log-bin": "bin", "server-id": 1, "binlog-format": "STATEMENT", "sync-binlog": 1 };
  const server = await startFor(context, () => startMariadb({ settings }));
  const pool = poolOn(context, server.url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: pool });
  await store.migrate();
  expect((await store.settings()).refused).toContain("binlog_format = STATEMENT");
  const failed = store.transact([toHold("room")], RULES);
  await expect(failed).rejects.toBeInstanceOf(NotWritten);
  await expect(failed).rejects.toMatchObject({
    cause: { code: "store-unsafe", message: expect.stringContaining("ROW or MIXED") },
  });
  const reservations = createReservations({ store, windowMs: HOUR_MS });
  context.onTestFinished(() => reservations.close());
  const request = { resource: "room", requester: "ann", durationMs: 1_000, key: "k" };
  expect(await reservations.placeHold(request)).toMatchObject({ reason: "storage-failure" });
  await pool.query("SET GLOBAL binlog_format = 'ROW'");
  await pool.query("SET SESSION binlog_format = 'ROW'");
  expect(await reservations.placeHold(request)).toMatchObject({ ok: true });
  const { rung, refused } = await diagnose(store as never);
  expect([rung, refused]).toEqual(["power-loss", undefined]);
  await pool.query("DROP TABLE nevertwice_checkpoints");
  expect((await store.settings()).refused).toContain("run migrate()");
});
