/**
 * Tests actions of reservations inside transactions that the application has open, on real Postgres and MariaDB with
 * drivers and query builders, and on SQLite. The rows of the table `ledger` are what the application commits beside them.
 */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { drizzle } from "drizzle-orm/node-postgres";
import createKnex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import postgres from "postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import { createReservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import { poolOf } from "./postgres/database.ts";
import { HOUR_MS } from "./reservation-requests.ts";
import {
  type Kind,
  MARIADB,
  onMysql,
  onPostgres,
  POSTGRES,
  ROOM,
  SERVERS,
} from "./transaction/reservations.ts";

const BUILDERS: Readonly<Record<string, Kind>> = {
  pg: POSTGRES,
  "postgres.js": {
    on: onPostgres,
    connect(_, url) {
      const sql = postgres(url, { max: 2, onnotice: () => {} });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return async (body) => (await sql.begin((tx) => body(tx, async (text) => tx.unsafe(text)))) as never;
    },
  },
  Kysely: {
    on: onPostgres,
    connect(_, url) {
      const db = new Kysely<object>({ dialect: new PostgresDialect({ pool: poolOf(url) as never }) });
      onTestFinished(() => db.destroy());
      const compiled = (sql: string) => ({ sql, parameters: [], query: {}, queryId: {} }) as never;
      return (body) =>
        db.transaction().execute((tx) => body(tx, async (text) => tx.executeQuery(compiled(text))));
    },
  },
  Drizzle: {
    on: onPostgres,
    connect(_, url) {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      return (body) =>
        drizzle({ client: pool }).transaction((tx) => body(tx, async (text) => tx.execute(text)));
    },
  },
  Knex: {
    on: onPostgres,
    connect(_, url) {
      const knex = createKnex({ client: "pg", connection: url });
      onTestFinished(() => knex.destroy());
      return (body) => knex.transaction((tx) => body(tx, async (text) => tx.raw(text)));
    },
  },
  mysql2: MARIADB,
  "Knex on MariaDB": {
    on: onMysql,
    connect(_, url) {
      const knex = createKnex({ client: "mysql2", connection: url });
      onTestFinished(() => knex.destroy());
      return (body) => knex.transaction((tx) => body(tx, async (text) => tx.raw(text)));
    },
  },
};

const insert = "INSERT INTO ledger VALUES ('booked')";

for (const [name, { on, connect }] of Object.entries(BUILDERS))
  test(`with ${name}, a hold and its life commit with the application's rows, or not at all`, async (context) => {
    const { url, desk, rows } = await on(context);
    const inTransaction = connect(context, url);
    const request = { ...ROOM, key: randomUUID() };
    const rolledBack = inTransaction(async (tx, execute) => {
      await execute(insert);
      expect(await desk.placeHold(request, { tx })).toMatchObject({ ok: true });
      throw new Error("changed my mind");
    });
    await expect(rolledBack).rejects.toThrow("changed my mind");
    expect(await rows()).toBe(0);
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 0, keys: 0, resources: 0 } });

    const held = await inTransaction(async (tx, execute) => {
      await execute(insert);
      const placed = await desk.placeHold(request, { tx });
      expect(await desk.placeHold(request, { tx })).toEqual(placed);
      expect(await desk.placeHold({ ...request, key: "other" }, { tx })).toMatchObject({
        reason: "resource-unavailable",
      });
      return placed;
    });
    expect(held).toMatchObject({ ok: true });
    expect(await desk.placeHold(request)).toEqual(held);
    const id = held.ok ? held.id : "";
    const confirm = { id, key: "pay" };
    expect(await inTransaction((tx) => Promise.resolve(desk.confirm(confirm, { tx })))).toEqual({ ok: true });
    expect(await desk.confirm(confirm)).toEqual({ ok: true });
    expect(await desk.get(id)).toMatchObject({ state: "confirmed" });
    expect(await rows()).toBe(1);
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 1, keys: 3, events: 3 } });
  });

describe.for(Object.entries(SERVERS))("on %s", ([, { on, connect }]) => {
  test("every action can join, and a rejection is kept under its key", async (context) => {
    const { url, desk } = await on(context);
    const inTransaction = connect(context, url);
    await inTransaction(async (tx) => {
      expect(await desk.resources.declare({ resource: "hall", capacity: 1, key: "d" }, { tx })).toEqual({
        ok: true,
      });
      expect(await desk.resources.adjust({ resource: "hall", capacity: 3, key: "a" }, { tx })).toEqual({
        ok: true,
      });
      const hall = { ...ROOM, resource: "hall", units: 2 };
      const first = await desk.placeHold({ ...hall, key: "h1" }, { tx });
      expect(await desk.placeHold({ ...hall, key: "h2" }, { tx })).toMatchObject({
        reason: "resource-unavailable",
      });
      const id = first.ok ? first.id : "";
      expect(await desk.expire({ id, key: "e" }, { tx })).toMatchObject({ reason: "window-not-elapsed" });
      expect(await desk.confirm({ id, key: "c", units: 1 }, { tx })).toEqual({ ok: true });
      expect(await desk.release({ id, key: "r" }, { tx })).toMatchObject({ reason: "not-held" });
      expect(await desk.giveBack({ id, key: "g" }, { tx })).toEqual({ ok: true });
      expect(await desk.release({ id: "nothing", key: "n" }, { tx })).toMatchObject({ reason: "not-known" });
      for (const action of ["suspend", "resume", "close"] as const)
        expect(await desk.resources[action]({ resource: "hall", key: action }, { tx })).toEqual({ ok: true });
      expect(await desk.placeHold({ ...ROOM, key: "" }, { tx })).toMatchObject({ reason: "invalid-request" });
    });
    expect(await desk.placeHold({ ...ROOM, resource: "hall", units: 2, key: "h2" })).toMatchObject({
      reason: "resource-unavailable",
    });
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 1, keys: 12 } });
  });

  test("a savepoint of the application takes back the hold alone", async (context) => {
    const { url, desk, rows } = await on(context);
    await connect(
      context,
      url,
    )(async (tx, execute) => {
      await execute(insert);
      await execute("SAVEPOINT mine");
      expect(await desk.placeHold({ ...ROOM, key: "k" }, { tx })).toMatchObject({ ok: true });
      await execute("ROLLBACK TO SAVEPOINT mine");
    });
    expect(await rows()).toBe(1);
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 0, keys: 0 } });
    expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  });

  test("actions of one transaction that are started together are carried out one by one", async (context) => {
    const { url, desk } = await on(context);
    const answers = await connect(
      context,
      url,
    )((tx) =>
      Promise.all(Array.from({ length: 8 }, (_, i) => desk.placeHold({ ...ROOM, key: `k${i % 4}` }, { tx }))),
    );
    expect(answers.filter(({ ok }) => ok)).toHaveLength(2);
    expect(answers.slice(0, 4)).toEqual(answers.slice(4));
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 1, keys: 4 } });
  });

  test("what cannot be read is thrown, and the transaction goes on", async (context) => {
    const { url, store, rows } = await on(context);
    const failing = createReservations({
      store,
      windowMs: HOUR_MS,
      purgeEveryMs: 0,
      available: () => {
        throw new Error("the calendar is gone");
      },
    });
    await connect(
      context,
      url,
    )(async (tx, execute) => {
      await expect(failing.placeHold({ ...ROOM, key: "k" }, { tx })).rejects.toThrow("the calendar is gone");
      await execute(insert);
    });
    expect(await rows()).toBe(1);
    expect(await failing.audit()).toMatchObject({ ok: true, counts: { keys: 0, resources: 0 } });
  });

  test("a pool, a missing tx and a connection without a transaction are refused, and nothing is written", async (context) => {
    const { url, desk, open } = await on(context);
    await expect(desk.placeHold({ ...ROOM, key: "k" }, { tx: poolOf(url) })).rejects.toMatchObject({
      code: "options-invalid",
    });
    expect(() => desk.placeHold({ ...ROOM, key: "k" }, { tx: undefined })).toThrow(/tx is missing/);
    const idle: unknown = await connect(context, url)(async (tx) => tx);
    await expect(Promise.resolve(open().placeHold({ ...ROOM, key: "k" }, { tx: idle }))).rejects.toThrow();
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { keys: 0, commitments: 0 } });
  });
});

describe("on SQLite", () => {
  function openSqlite() {
    const database = new DatabaseSync(":memory:");
    onTestFinished(() => database.close());
    database.exec("CREATE TABLE ledger (entry TEXT NOT NULL)");
    const store = sqliteReservations({ database });
    const desk = createReservations({ store, windowMs: HOUR_MS, purgeEveryMs: 0 });
    const rows = () => database.prepare("SELECT count(*) AS n FROM ledger").get();
    return { database, desk, rows };
  }

  test("actions join a transaction on the store's connection, and answer at once", async () => {
    const { database, desk, rows } = openSqlite();
    await desk.listHeld();
    const request = { ...ROOM, key: "k" };
    database.exec("BEGIN IMMEDIATE");
    database.exec(insert);
    expect(desk.placeHold(request, { tx: database })).toMatchObject({ ok: true });
    database.exec("ROLLBACK");
    expect(rows()).toEqual({ n: 0 });
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { keys: 0, commitments: 0 } });
    database.exec("BEGIN IMMEDIATE");
    database.exec(insert);
    const held = desk.placeHold(request, { tx: database });
    expect(desk.placeHold(request, { tx: database })).toEqual(held);
    const id = held.ok ? held.id : "";
    expect(desk.confirm({ id, key: "c" }, { tx: database })).toEqual({ ok: true });
    database.exec("COMMIT");
    expect(rows()).toEqual({ n: 1 });
    expect(await desk.placeHold(request)).toEqual(held);
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { keys: 2, commitments: 1 } });
  });

  test("an action that fails halfway leaves nothing, and the transaction goes on", async () => {
    const { database, desk, rows } = openSqlite();
    await desk.listHeld();
    database.exec("BEGIN IMMEDIATE");
    database.exec(
      "CREATE TRIGGER refuse BEFORE INSERT ON nevertwice_reservation_events BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    expect(() => desk.placeHold({ ...ROOM, key: "k" }, { tx: database })).toThrow(/refused/);
    database.exec("DROP TRIGGER refuse");
    database.exec(insert);
    database.exec("COMMIT");
    expect(rows()).toEqual({ n: 1 });
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { keys: 0, resources: 0, commitments: 0 } });
  });

  test("a connection without a transaction, another connection and a failing action change nothing", async () => {
    const { database, desk } = openSqlite();
    await desk.listHeld();
    const request = { ...ROOM, key: "k" };
    expect(() => desk.placeHold(request, { tx: database })).toThrow(/no open transaction/);
    const other = new DatabaseSync(":memory:");
    await expect(desk.placeHold(request, { tx: other })).rejects.toMatchObject({ code: "options-invalid" });
    other.close();
    database.exec("BEGIN IMMEDIATE");
    expect(() => desk.placeHold({ ...request, seats: 2 } as never, { tx: database })).toThrow(/seats/);
    database.exec("COMMIT");
    expect(await desk.audit()).toMatchObject({ ok: true, counts: { keys: 0 } });
  });
});

test("reservations in memory cannot join a transaction", async () => {
  const desk = createReservations({ store: memoryReservations(), windowMs: HOUR_MS, purgeEveryMs: 0 });
  const client = { query: async () => ({ rows: [] }) };
  await expect(desk.placeHold({ ...ROOM, key: "k" }, { tx: client })).rejects.toThrow(/postgresReservations/);
});
