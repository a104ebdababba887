/** Tests that stores count the expired records that no purge has removed, and that several stores on one database may purge at once. Needs the build. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, type TestContext, test } from "vitest";
import { sqliteStore } from "../../dist/stores/sqlite.js";
import type { Store } from "../../src/core/store.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import * as sql from "../../src/stores/sqlite-sql.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { sharedUrl } from "../services/services.ts";
import { newDatabase, poolOn } from "./mysql/pools.ts";
import { claimOf, createDatabase, poolOf } from "./postgres/database.ts";

/** Opens several stores on one new database, as several processes do. */
type OpenStores = (count: number) => Promise<readonly Store[]>;

const DATABASES: Readonly<Record<string, (context: TestContext) => OpenStores>> = {
  SQLite: (context) => async (count) => {
    const file = join(await scratchFolder(context), "records.db");
    return Array.from({ length: count }, () => {
      const store = sqliteStore({ file });
      context.onTestFinished(() => store.close());
      return store;
    });
  },
  Postgres: (context) => async (count) => {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    const stores = Array.from({ length: count }, () => {
      const pool = poolOf(url);
      context.onTestFinished(() => pool.end());
      return postgresStore({ client: pool });
    });
    await stores[0]?.migrate();
    return stores;
  },
  MySQL: (context) => async (count) => {
    const url = await newDatabase(context);
    const stores = Array.from({ length: count }, () => mysqlStore({ client: poolOn(context, url) }));
    await stores[0]?.migrate();
    return stores;
  },
};

/** Leaves records behind that have expired: their leases have ended, and they are kept no longer. */
async function leaveExpired(store: Store, count: number): Promise<void> {
  const claim = () => store.claim(claimOf(randomUUID(), { leaseMs: 1, retentionMs: 1 }));
  await Promise.all(Array.from({ length: count }, claim));
  await sleep(5);
}

const overdue = async (store: Store, limit = 1_000) => store.overdue?.({ limit });

describe.each(Object.keys(DATABASES))("on %s", (name) => {
  const open = (context: TestContext) => DATABASES[name]?.(context) as OpenStores;

  test("counts expired records until they are purged, and neither living nor held ones", async (context) => {
    const [store] = (await open(context)(1)) as [Store];
    expect(await overdue(store)).toEqual({ count: 0, isComplete: true });
    const since = Date.now();
    await leaveExpired(store, 3);
    await store.claim(claimOf());
    await store.claim(claimOf(randomUUID(), { leaseMs: 1, retentionMs: 1, hold: true }));
    const report = await overdue(store);
    expect(report).toMatchObject({ count: 3, isComplete: true });
    expect(Math.abs((report?.oldestSince ?? 0) - since)).toBeLessThan(60_000);
    expect(await overdue(store, 2)).toMatchObject({ count: 2, isComplete: false });
    expect(await store.purge(500)).toMatchObject({ removed: 3 });
    expect(await overdue(store)).toEqual({ count: 0, isComplete: true });
  });

  test("purges of several stores on one database remove each record once, and end when nothing is left", async (context) => {
    const stores = await open(context)(3);
    await leaveExpired(stores[0] as Store, 400);
    const removed = await Promise.all(
      stores.map(async (store) => {
        let sum = 0;
        for (let more = true; more; ) {
          const report = await store.purge(20);
          sum += report.removed;
          more = report.more;
        }
        return sum;
      }),
    );
    expect(removed.reduce((sum, each) => sum + each, 0)).toBe(400);
    expect(await overdue(stores[0] as Store)).toEqual({ count: 0, isComplete: true });
  });
});

test("a purge on Postgres does not step over the records that it has removed while an old transaction keeps them", async (context) => {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  context.onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool });
  await store.migrate();
  await pool.query(`INSERT INTO nevertwice_records
    (id, state, token, spent, hold, took_over, number, fence, claimed_at, lease, lease_ends_at, retention, kept_until, completed_at, purge_at, parts, outcome)
    SELECT sha256(convert_to(n::text, 'UTF8')), 'completed', 't', false, false, false, 1, n, n, 1, n, 1, n, n, n, '["n","s","o","k"]', 'done'
    FROM generate_series(1, 20000) AS n`);
  await pool.query("ALTER TABLE nevertwice_records SET (autovacuum_enabled = off)");
  await pool.query("ANALYZE nevertwice_records");
  const old = await pool.connect();
  context.onTestFinished(() => old.release(true));
  await old.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  for (let purges = 0; purges < 20; purges++) expect(await store.purge(500)).toMatchObject({ removed: 500 });
  const read = async () => {
    const { rows } = await pool.query(
      "SELECT idx_tup_read AS read FROM pg_stat_user_indexes WHERE indexrelname = 'nevertwice_records_purge_at'",
    );
    return Number(rows[0].read);
  };
  // Each purge has read its own records, and not those of the purges before it.
  await expect.poll(read).toBeGreaterThanOrEqual(10_000);
  expect(await read()).toBeLessThan(20_000);
});

test("a purge on Postgres that continues another one comes back to a record that was locked meanwhile", async (context) => {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  context.onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool });
  await store.migrate();
  for (let each = 0; each < 4; each++) await leaveExpired(store, 1);
  const locking = await pool.connect();
  context.onTestFinished(() => locking.release(true));
  await locking.query(
    "BEGIN; SELECT FROM nevertwice_records WHERE purge_at = (SELECT min(purge_at) FROM nevertwice_records) FOR UPDATE",
  );
  expect(await store.purge(2)).toEqual({ removed: 2, more: true });
  await locking.query("ROLLBACK");
  expect(await store.purge(500)).toEqual({ removed: 2, more: false });
  expect(await overdue(store)).toEqual({ count: 0, isComplete: true });
});

test("claims on SQLite go between the parts of a purge, which removes as many records as it was asked to", async (context) => {
  const open = DATABASES.SQLite as (context: TestContext) => OpenStores;
  const [store] = (await open(context)(1)) as [Store];
  await leaveExpired(store, 1_000);
  const order: string[] = [];
  const purge = store.purge(900).then((report) => {
    order.push("purged");
    return report;
  });
  await store.claim(claimOf());
  order.push("claimed");
  expect(await purge).toEqual({ removed: 900, more: true });
  expect(order).toEqual(["claimed", "purged"]);
  expect(await store.purge(900)).toEqual({ removed: 100, more: false });
});

test("the purge and the count on SQLite read no record whose time has not come", () => {
  const database = new DatabaseSync(":memory:");
  for (const migration of sql.MIGRATIONS) database.exec(migration);
  for (const column of ["steps", "history"])
    database.exec(`ALTER TABLE nevertwice_records ADD COLUMN ${column} TEXT`);
  for (const text of [sql.HAS_EXPIRED, sql.PURGE, sql.OVERDUE]) {
    const plan = database
      .prepare(`EXPLAIN QUERY PLAN ${text}`)
      .all(...[...text.matchAll(/\?/g)].map(() => 1));
    expect(JSON.stringify(plan)).toContain("USING INDEX nevertwice_records_by_purge_at (purge_at<?)");
  }
  database.close();
});
