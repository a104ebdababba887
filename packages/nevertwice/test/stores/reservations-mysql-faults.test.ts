/** Reservations on MariaDB when a connection breaks, a reply is lost, or the server is not as it should be. */
import type { Pool, RowDataPacket } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { MayBeWritten, NotWritten } from "../../src/reservations/ledger.ts";
import { mysqlReservations, reservationsSql } from "../../src/reservations/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { newDatabase, newStore, poolOn, poolTelling } from "./mysql/pools.ts";
import {
  asked,
  countRows,
  HOUR_MS,
  holdOf,
  locking,
  NOTHING,
  newReservations,
  ONE_HOLD,
  RULES,
  waiting,
} from "./mysql/reservations.ts";

const unavailable = { code: "unavailable", retryable: true };

/** A store of one connection behind a proxy, and a pool beside it that sees what the server has. */
async function throughProxy(context: TestContext) {
  const { url, pool } = await newReservations(context);
  const proxy = await startFor(context, () => startProxy(url));
  const proxied = poolOn(context, proxy.url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: proxied });
  await store.now();
  return { store, beside: pool, proxied, proxy };
}

/** The command for a query, and all of its text. */
const COMMIT: Filter = (chunk) => chunk.includes("\u0003COMMIT");

/** That it is as it was handed over: in no transaction, and with the isolation that its pool has set. */
async function expectUntouched(pool: Pool): Promise<void> {
  const [[row]] = await pool.query<RowDataPacket[]>(
    "SELECT @@in_transaction AS open, @@tx_isolation AS level",
  );
  expect([Number(row?.open), row?.level]).toEqual([0, "REPEATABLE-READ"]);
}

test("lost-reply: a COMMIT that was done is answered, and its key answers", async (context) => {
  const { store, beside, proxied, proxy } = await throughProxy(context);
  const hold = holdOf("room");
  proxy.cutReply(1, COMMIT);
  expect(await store.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
  expect(await countRows(beside)).toEqual(ONE_HOLD);
  proxy.cutReply(1, COMMIT);
  expect(await store.transact([{ ...hold, newId: "other" }], RULES)).toEqual([{ ok: true, id: hold.newId }]);
  await expectUntouched(proxied);
});

test("lost-reply: a COMMIT that never arrived is told as not written", async (context) => {
  const { store, beside, proxied, proxy } = await throughProxy(context);
  proxy.cutRequest(1, COMMIT);
  const lost = store.transact([holdOf("room")], RULES);
  await expect(lost).rejects.toBeInstanceOf(NotWritten);
  await expect(lost).rejects.toMatchObject({ cause: unavailable });
  expect(await countRows(beside)).toEqual(NOTHING);
  await expectUntouched(proxied);
});

test("lost-reply: a COMMIT is in doubt if the server is away after it, with what was decided", async (context) => {
  const { store, beside, proxy } = await throughProxy(context);
  const hold = holdOf("room");
  proxy.refuse();
  proxy.cutReply(1, COMMIT);
  const lost = store.transact([hold], RULES);
  await expect(lost).rejects.toBeInstanceOf(MayBeWritten);
  await expect(lost).rejects.toMatchObject({ answers: [{ ok: true, id: hold.newId }], cause: unavailable });
  proxy.heal();
  expect(await countRows(beside)).toEqual(ONE_HOLD);
  expect(await store.transact([{ ...hold, newId: "other" }], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("late-writer: a COMMIT that is still under way is waited for, not missed", async (context) => {
  const { beside, proxied, proxy } = await throughProxy(context);
  const connection = await proxied.getConnection();
  const query = connection.query.bind(connection) as unknown as (options: { sql: string }) => Promise<never>;
  const client = {
    query: beside.query.bind(beside) as never,
    // Its COMMIT is held back, and its connection lost.
    getConnection: async () => ({
      query(options: { sql: string }) {
        const isCommit = options.sql === "COMMIT";
        if (isCommit) proxy.holdRequests();
        const reply = query(options);
        if (isCommit) setTimeout(() => proxy.cutAll(), 100);
        return reply;
      },
      release: () => connection.release(),
      destroy: () => connection.destroy(),
    }),
  };
  const store = mysqlReservations({ client });
  const hold = holdOf("room");
  const answers = store.transact([hold], RULES);
  await waiting(beside, "SELECT checkpoint FROM nevertwice_reservation_keys");
  proxy.releaseRequests();
  expect(await answers).toEqual([{ ok: true, id: hold.newId }]);
  expect(await countRows(beside)).toEqual(ONE_HOLD);
});

test("lost-reply: whichever is lost, all of it was written or nothing", async (context) => {
  const { store, beside, proxied, proxy } = await throughProxy(context);
  await store.transact([asked("declare", { resource: "room", capacity: 100 })], RULES);
  let held = 0;
  for (const side of ["cutReply", "cutRequest"] as const)
    for (let trip = 1; trip <= 13; trip++) {
      await store.now();
      let left = trip;
      proxy[side](1, () => --left === 0);
      const answers = await store.transact([holdOf("room")], RULES).catch((error: unknown) => error);
      if (Array.isArray(answers)) held++;
      else expect(answers).toBeInstanceOf(NotWritten);
      proxy.heal();
      const counts = await countRows(beside);
      expect([side, trip, counts]).toEqual([
        side,
        trip,
        { keys: held + 1, resources: 1, commitments: held, events: held + 1, checkpoints: held + 1 },
      ]);
    }
  // Only the last reply is of a transaction that was committed.
  expect(held).toBe(1);
  await expectUntouched(proxied);
});

test("a connection that is killed in the middle leaves nothing behind", async (context) => {
  const { url, pool, store: other } = await newReservations(context);
  await other.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const mortal = poolOn(context, url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: mortal });
  const blocker = await locking(pool, "SELECT * FROM nevertwice_resources FOR UPDATE");
  const hold = holdOf("room");
  const killed = store.transact([hold, holdOf("elsewhere")], RULES).catch((error: unknown) => error);
  const [id] = await waiting(pool, "INSERT INTO nevertwice_resources");
  await pool.query(`KILL CONNECTION ${id}`);
  expect(await killed).toBeInstanceOf(NotWritten);
  await blocker.end();
  expect(await countRows(pool)).toEqual({ ...NOTHING, keys: 1, resources: 1, events: 1, checkpoints: 1 });
  expect(await store.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("an availability function that throws rolls all of it back, and the connection is as it was", async (context) => {
  const { url, pool, store } = await newReservations(context);
  const only = poolOn(context, url, { connectionLimit: 1 });
  const rules = {
    ...RULES,
    available() {
      throw new Error("no answer");
    },
  };
  const failed = mysqlReservations({ client: only }).transact([holdOf("room")], rules);
  await expect(failed).rejects.toBeInstanceOf(NotWritten);
  await expect(failed).rejects.toMatchObject({ cause: { message: "no answer" } });
  expect(await countRows(pool)).toEqual(NOTHING);
  await expectUntouched(only);
  expect(await store.transact([holdOf("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("who waits too long for a row is told that nothing was written, and may ask again", async (context) => {
  const { url, pool, store } = await newReservations(context);
  await store.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const client = poolTelling(context, url, "SET SESSION innodb_lock_wait_timeout = 1");
  const impatient = mysqlReservations({ client });
  const blocker = await locking(pool, "SELECT * FROM nevertwice_resources FOR UPDATE");
  const hold = holdOf("room");
  const late = impatient.transact([hold], RULES);
  await expect(late).rejects.toBeInstanceOf(NotWritten);
  await expect(late).rejects.toMatchObject({ cause: unavailable });
  await blocker.end();
  expect(await countRows(pool)).toMatchObject({ keys: 1, commitments: 0 });
  expect(await impatient.transact([hold], RULES)).toEqual([{ ok: true, id: hold.newId }]);
});

test("names are told apart whatever the connection's character set and SQL mode are", async (context) => {
  const { url, store } = await newReservations(context);
  const client = poolTelling(
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
    names.map((name) => holdOf(name)),
    RULES,
  ))
    expect(answer.ok).toBe(true);
  const { rows } = await store.resources({ namespace: "n", limit: 100 });
  expect(rows.map(({ name }) => name).sort()).toEqual([...names].sort());
  expect((await odd.commitments({ namespace: "n", resource: "CAFE", limit: 9 })).rows).toHaveLength(1);
});

test("an id that is longer than any is not known, and what cannot be written as JSON is refused and kept", async (context) => {
  const { store } = await newReservations(context);
  const group = [
    asked("confirm", { id: "x".repeat(300) }),
    asked("giveBack", { id: "x".repeat(300) }),
    holdOf("room", { units: 1n }),
  ];
  const answers = await store.transact(group, RULES);
  expect(answers).toMatchObject([
    { reason: "not-known" },
    { reason: "not-known" },
    { reason: "invalid-request" },
  ]);
  expect(await store.transact(group, RULES)).toEqual(answers);
});

test("tables are made by many at once, beside those of claims, or by hand", async (context) => {
  const { url, pool } = await newStore(context);
  const store = mysqlReservations({ client: pool });
  const missing = { code: "store-unsafe", message: expect.stringContaining("Run migrate() once") };
  await expect(store.now()).rejects.toMatchObject(missing);
  await expect(store.transact([holdOf("room")], RULES)).rejects.toMatchObject({ cause: missing });
  expect((await store.settings()).refused).toContain("run migrate()");
  const stores = Array.from({ length: 4 }, () => mysqlReservations({ client: poolOn(context, url) }));
  await Promise.all(stores.map((each) => each.migrate()));
  expect(await store.transact([holdOf("room")], RULES)).toMatchObject([{ ok: true }]);

  const byHand = poolOn(context, await newDatabase(context), { multipleStatements: true });
  await byHand.query(reservationsSql());
  await byHand.query(reservationsSql());
  const other = mysqlReservations({ client: byHand });
  expect(await other.transact([holdOf("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("a single connection, a pool with callbacks and an option that nobody knows are refused", async (context) => {
  const { pool } = await newReservations(context);
  const connection = await pool.getConnection();
  expect(() => mysqlReservations({ client: connection as never })).toThrow(/single connection/);
  expect(() => mysqlReservations({ client: pool.pool as never })).toThrow(/callbacks/);
  expect(() => mysqlReservations({ client: pool, prefix: "x" } as never)).toThrow(/prefix/);
  expect(() => mysqlReservations({} as never)).toThrow(/client/);
  connection.release();
});

test("the doctor reads the settings, and refuses a binary log of statements and tables that are not all there", async (context) => {
  const settings = { "log-bin": "bin", "server-id": 1, "binlog-format": "STATEMENT", "sync-binlog": 1 };
  const server = await startFor(context, () => startMariadb({ settings }));
  const pool = poolOn(context, server.url, { connectionLimit: 1 });
  const store = mysqlReservations({ client: pool });
  await store.migrate();
  expect((await store.settings()).refused).toContain("binlog_format = STATEMENT");
  const failed = store.transact([holdOf("room")], RULES);
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
