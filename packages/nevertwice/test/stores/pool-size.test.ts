/**
 * Tests transactions on the pool that the store uses itself, on real databases: they never take its last connection, so the
 * store can always claim, complete and renew.
 */
import { randomUUID } from "node:crypto";
import { drizzle } from "drizzle-orm/node-postgres";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { DatabaseHandle } from "../../src/core/database-handle.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { drizzleDatabase } from "../../src/transaction/drizzle.ts";
import { gate } from "../deferred.ts";
import { poolOn } from "./mysql/pools.ts";
import { poolOf } from "./postgres/database.ts";
import { emptyMysql, emptyPostgres } from "./transaction/scene.ts";

interface SharedPool {
  readonly guard: Guard;
  readonly database: DatabaseHandle;
}

function guardOn(store: Parameters<typeof createGuard>[0]["store"]): Guard {
  const guard = createGuard({ store, storeTimeoutMs: 20_000, purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

const POOLS: Readonly<Record<string, (context: TestContext, max: number) => Promise<SharedPool>>> = {
  async pg(context, max) {
    const pool = poolOf(await emptyPostgres(context), { max });
    onTestFinished(() => pool.end());
    return { guard: guardOn(postgresStore({ client: pool })), database: pool };
  },
  async "Drizzle on pg"(context, max) {
    const pool = poolOf(await emptyPostgres(context), { max });
    onTestFinished(() => pool.end());
    const database = drizzleDatabase(drizzle({ client: pool }));
    return { guard: guardOn(postgresStore({ client: pool })), database };
  },
  async "postgres.js"(context, max) {
    const sql = postgres(await emptyPostgres(context), { max, onnotice: () => {} });
    onTestFinished(() => sql.end({ timeout: 1 }));
    return { guard: guardOn(postgresStore({ client: sql })), database: sql };
  },
  async mysql2(context, max) {
    const { url } = await emptyMysql(context);
    const pool = poolOn(context, url, { connectionLimit: max });
    return { guard: guardOn(mysqlStore({ client: pool })), database: pool };
  },
};

const request = () => ({ operation: "pay", key: randomUUID() });

for (const [name, connect] of Object.entries(POOLS)) {
  describe(name, () => {
    for (const max of name === "pg" ? [2, 3] : [2])
      test(`twenty transactions at once, each with a nested guard.run, succeed on a pool of ${max}`, async (context) => {
        const { guard, database } = await connect(context, max);
        let [running, most] = [0, 0];
        const pay = () =>
          guard.transaction(request(), database, async () => {
            running++;
            most = Math.max(most, running);
            const nested = await guard.run({ ...request(), operation: "nested" }, () => "nested");
            running--;
            return nested;
          });
        const values = await Promise.all(Array.from({ length: 20 }, pay));
        expect(new Set(values)).toEqual(new Set(["nested"]));
        expect(most).toBe(max - 1);
      });

    test("other attempts renew and complete while transactions have every connection that they may take", async (context) => {
      const { guard, database } = await connect(context, 3);
      const over = gate();
      let running = 0;
      const transactions = Array.from({ length: 6 }, () =>
        guard.transaction(request(), database, async () => {
          running++;
          await over.opened;
          return "paid";
        }),
      );
      await expect.poll(() => running).toBe(2);
      const brief = guard.with({ storeTimeoutMs: 2_000 });
      const renewals = brief.run(request(), async (attempt) => [
        await attempt.renew(),
        await attempt.renew(),
        await attempt.renew(),
      ]);
      expect(await renewals).toEqual([true, true, true]);
      expect(running).toBe(2);
      over.open();
      expect(await Promise.all(transactions)).toEqual(new Array(6).fill("paid"));
    });

    test("a pool of one connection runs one transaction at a time, and a nested guard.run in it is refused in time", async (context) => {
      const { guard, database } = await connect(context, 1);
      const values = await Promise.all(
        Array.from({ length: 5 }, (_, index) => guard.transaction(request(), database, async () => index)),
      );
      expect(values).toEqual([0, 1, 2, 3, 4]);
      const brief = guard.with({ storeTimeoutMs: 200 });
      const nested = guard.transaction(request(), database, () => brief.run(request(), () => "nested"));
      await expect(nested).rejects.toMatchObject({ code: "unavailable" });
      expect(await guard.run(request(), () => "free")).toBe("free");
    });
  });
}

test("steps in transactions share the limit with other transactions", async (context) => {
  const { guard, database } = await (POOLS.pg as (typeof POOLS)[string])(context, 2);
  let [running, most] = [0, 0];
  const work = async () => {
    running++;
    most = Math.max(most, running);
    await guard.run({ ...request(), operation: "nested" }, () => "nested");
    running--;
    return "paid";
  };
  const paid = Array.from({ length: 4 }, () => [
    guard.run(request(), (attempt) => attempt.step("pay", database, work)),
    guard.transaction(request(), database, work),
  ]).flat();
  expect(await Promise.all(paid)).toEqual(new Array(8).fill("paid"));
  expect(most).toBe(1);
});

test("another pool than the store's is not limited", async (context) => {
  const url = await emptyPostgres(context);
  const [own, other] = [poolOf(url), poolOf(url, { max: 3 })];
  onTestFinished(async () => void (await Promise.all([own.end(), other.end()])));
  const guard = guardOn(postgresStore({ client: own }));
  let arrived = 0;
  const together = Array.from({ length: 3 }, () =>
    guard.transaction(request(), other, async () => {
      arrived++;
      while (arrived < 3) await new Promise((resolve) => setTimeout(resolve, 5));
      return "together";
    }),
  );
  expect(await Promise.all(together)).toEqual(["together", "together", "together"]);
});

test("a transaction that waited too long for its turn never begins, and gives its key back", async (context) => {
  const url = await emptyPostgres(context);
  const pool = poolOf(url, { max: 2 });
  onTestFinished(() => pool.end());
  const guard = guardOn(postgresStore({ client: pool }));
  let release = () => {};
  const first = guard.transaction(
    request(),
    pool,
    () =>
      new Promise<void>((resolve) => {
        release = resolve;
      }),
  );
  const asked = request();
  let runs = 0;
  const late = guard.with({ storeTimeoutMs: 200 }).transaction(asked, pool, () => ++runs);
  await expect(late).rejects.toMatchObject({ code: "unavailable" });
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
  release();
  await first;
  expect(await guard.transaction(asked, pool, () => "paid")).toBe("paid");
  expect(runs).toBe(0);
});
