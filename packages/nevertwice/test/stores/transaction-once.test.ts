/**
 * Tests `once` inside transactions that the application has open, on real Postgres and MariaDB with drivers and query
 * builders, and on SQLite. The rows of the table `ledger` count what was committed.
 */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { createGuard, type Guard, type RunResult } from "../../src/index.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { once } from "../../src/transaction/index.ts";
import { poolOn } from "./mysql/pools.ts";
import { poolOf } from "./postgres/database.ts";
import { DRIVERS, pgTransactions } from "./transaction/drivers.ts";
import { onMysql, onPostgres } from "./transaction/scene.ts";

const insert = (key: string) => `INSERT INTO ledger VALUES ('${key}')`;

for (const [name, { on, connect }] of Object.entries(DRIVERS)) {
  describe(name, () => {
    test("runs once for its key, and a later transaction gets the same value", async (context) => {
      const { url, guard, rows } = await on(context);
      const inTransaction = connect(context, url);
      const request = { guard, operation: "pay", key: randomUUID(), fingerprint: { amount: 5 } };
      const pay = () =>
        inTransaction((tx, execute) =>
          once(tx, request, async (_, attempt) => {
            await execute(insert(request.key));
            return { paid: attempt.number };
          }),
        );
      expect(await pay()).toEqual({ status: "ran", value: { paid: 1 }, recorded: true });
      expect(await pay()).toEqual({ status: "replayed", value: { paid: 1 } });
      expect(await guard.tryRun({ operation: "pay", key: request.key }, () => "again")).toEqual({
        status: "replayed",
        value: { paid: 1 },
      });
      const other = { ...request, fingerprint: { amount: 6 } };
      expect(await inTransaction((tx) => once(tx, other, async () => "other"))).toMatchObject({
        status: "conflict",
      });
      expect(await rows()).toBe(1);
    });

    test("leaves nothing behind when the application rolls back", async (context) => {
      const { url, guard, rows } = await on(context);
      const inTransaction = connect(context, url);
      const request = { guard, operation: "pay", key: randomUUID() };
      const rolledBack = inTransaction(async (tx, execute) => {
        const result = await once(tx, request, async () => void (await execute(insert(request.key))));
        expect(result.status).toBe("ran");
        throw new Error("rolled back");
      });
      await expect(rolledBack).rejects.toThrow("rolled back");
      expect(await rows()).toBe(0);
      expect(await guard.read({ operation: "pay", key: request.key })).toBeUndefined();
    });

    test("rolls back to where it began when the work throws, and the transaction goes on", async (context) => {
      const { url, guard, rows } = await on(context);
      const inTransaction = connect(context, url);
      const request = { guard, operation: "pay", key: randomUUID() };
      await inTransaction(async (tx, execute) => {
        await execute(insert("before"));
        const failing = once(tx, request, async () => {
          await execute(insert("inside"));
          throw new Error("card declined");
        });
        await expect(failing).rejects.toThrow("card declined");
        await execute(insert("after"));
      });
      expect(await rows()).toBe(2);
      expect(await guard.read({ operation: "pay", key: request.key })).toBeUndefined();
    });
  });
}

test("a duplicate beside an open transaction is pending at once, and delays no other claim", async (context) => {
  const { url, guard } = await onPostgres(context);
  const rejecting = guard.with({ onPending: "reject" });
  const key = randomUUID();
  const request = { guard, operation: "pay", key };
  await pgTransactions(url)(async (tx) => {
    expect(await once(tx, request, async () => "first")).toMatchObject({ status: "ran" });
    const startedAt = performance.now();
    const duplicates = Array.from({ length: 5 }, () =>
      rejecting.tryRun({ operation: "pay", key }, () => "second"),
    );
    const unrelated = Array.from({ length: 31 }, () =>
      guard.tryRun({ operation: "pay", key: randomUUID() }, () => 1),
    );
    const results: RunResult<unknown>[] = await Promise.all(duplicates);
    expect(results.map(({ status }) => status)).toEqual(new Array(5).fill("pending"));
    expect((await Promise.all(unrelated)).every(({ status }) => status === "ran")).toBe(true);
    const inside = pgTransactions(url)((other) => once(other, request, async () => "third"));
    expect(await inside).toMatchObject({ status: "pending" });
    expect(performance.now() - startedAt).toBeLessThan(900);
  });
  expect(await guard.run({ operation: "pay", key }, () => "second")).toBe("first");
});

test("leaves the limits of the transaction unchanged on Postgres", async (context) => {
  const { url, guard } = await onPostgres(context);
  await pgTransactions(url)(async (tx, execute) => {
    await execute("SET LOCAL lock_timeout = '7s'");
    await once(tx, { guard, operation: "pay", key: randomUUID() }, async () => 1);
    expect(await execute("SHOW lock_timeout")).toMatchObject({ rows: [{ lock_timeout: "7s" }] });
  });
});

test("a race under REPEATABLE READ is thrown to the caller, who owns the transaction", async (context) => {
  const { url, guard } = await onPostgres(context);
  const key = randomUUID();
  const racing = pgTransactions(url)(async (tx, execute) => {
    await execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    await execute("SELECT count(*) FROM ledger");
    await guard.run({ operation: "pay", key }, () => "elsewhere");
    return once(tx, { guard, operation: "pay", key }, async () => "here");
  });
  await expect(racing).rejects.toMatchObject({ code: "40001" });
});

describe("without an open transaction", () => {
  test("is refused on Postgres and MariaDB, and runs nothing", async (context) => {
    const [onPg, onMy] = [await onPostgres(context), await onMysql(context)];
    const pool = poolOf(onPg.url);
    onTestFinished(() => pool.end());
    const request = (guard: Guard) => ({ guard, operation: "pay", key: "k" });
    let runs = 0;
    const client = await pool.connect();
    await expect(once(client, request(onPg.guard), async () => ++runs)).rejects.toMatchObject({
      code: "25P01",
    });
    client.release();
    expect(() => once(pool, request(onPg.guard), async () => ++runs)).toThrow(
      /For a pool, use guard.transaction/,
    );
    const connection = await poolOn(context, onMy.url).getConnection();
    const refused = once(connection, request(onMy.guard), async () => ++runs);
    await expect(refused).rejects.toMatchObject({ code: "options-invalid" });
    connection.release();
    expect(runs).toBe(0);
    expect(await onMy.guard.read({ operation: "pay", key: "k" })).toBeUndefined();
  });
});

describe("runs although its transaction has the only connection of the store's pool", () => {
  test("on pg", async (context) => {
    const { url } = await onPostgres(context);
    const pool = poolOf(url, { max: 1 });
    const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });
    const client = await pool.connect();
    await client.query("BEGIN");
    const result = await once(client, { guard, operation: "pay", key: "k" }, async () => "paid");
    await client.query("COMMIT");
    client.release();
    expect(result).toMatchObject({ status: "ran", value: "paid" });
    await guard.close();
    await pool.end();
  });

  test("on mysql2", async (context) => {
    const { url } = await onMysql(context);
    const pool = poolOn(context, url, { connectionLimit: 1 });
    const guard = createGuard({ store: mysqlStore({ client: pool }), purgeEveryMs: 0 });
    const connection = await pool.getConnection();
    await connection.query("START TRANSACTION");
    const result = await once(connection, { guard, operation: "pay", key: "k" }, async () => "paid");
    await connection.query("COMMIT");
    connection.release();
    expect(result).toMatchObject({ status: "ran", value: "paid" });
    await guard.close();
  });
});

test("is synchronous on the connection of a SQLite store", async () => {
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  database.exec("CREATE TABLE ledger (key TEXT NOT NULL)");
  const guard = createGuard({ store: sqliteStore({ database }), purgeEveryMs: 0 });
  await guard.ready();
  const request = { guard, operation: "pay", key: "k" };
  const pay = () => {
    database.exec("BEGIN IMMEDIATE");
    const result = once(database, request, (tx) => {
      tx.exec(insert("k"));
      return "paid";
    });
    database.exec("COMMIT");
    return result;
  };
  expect(pay()).toEqual({ status: "ran", value: "paid", recorded: true });
  expect(pay()).toEqual({ status: "replayed", value: "paid" });
  database.exec("BEGIN IMMEDIATE");
  const other = { ...request, key: "other" };
  expect(() => once(database, other, async (tx) => tx.exec(insert("other")))).toThrow(/returned a promise/);
  database.exec("COMMIT");
  expect(database.prepare("SELECT count(*) AS count FROM ledger").get()).toEqual({ count: 1 });
  await guard.close();
});
