/** Tests the tables of the MySQL store: created once by any number of processes, migrated, and refused in a wrong version. */
import type { Pool, RowDataPacket } from "mysql2/promise";
import { expect, test } from "vitest";
import { migrationSql, mysqlStore } from "../../src/stores/mysql.ts";
import {
  expiredSql,
  LOCK_SQL,
  MIGRATIONS,
  purgeSql,
  scanSql,
  UNLOCK_SQL,
  VERSIONS_TABLE,
  versionReachedSql,
} from "../../src/stores/mysql-sql.ts";
import { claimOf } from "./claim-request.ts";
import { newDatabase, newStore, poolOn } from "./mysql/pools.ts";

async function shapeOf(pool: Pool): Promise<unknown> {
  const shapes: unknown[] = [];
  for (const table of ["nevertwice_records", "nevertwice_versions"]) {
    const [[row]] = await pool.query<RowDataPacket[]>(`SHOW CREATE TABLE ${table}`);
    shapes.push(row?.["Create Table"]);
  }
  const [versions] = await pool.query<RowDataPacket[]>("SELECT version FROM nevertwice_versions");
  return [...shapes, versions.map(({ version }) => version)];
}

test("ten migrations at once create the tables once", async (context) => {
  const url = await newDatabase(context);
  const stores = Array.from({ length: 10 }, () =>
    mysqlStore({ client: poolOn(context, url, { connectionLimit: 2 }) }),
  );
  await Promise.all(stores.map((store) => store.migrate()));
  const answers = await Promise.all(stores.map((store) => store.claim(claimOf("a"))));
  expect(answers.filter(({ status }) => status === "new")).toHaveLength(1);
});

test("a migration waits for one that is running", async (context) => {
  const url = await newDatabase(context);
  const busy = await poolOn(context, url).getConnection();
  await busy.query(LOCK_SQL);
  let isDone = false;
  const migrating = mysqlStore({ client: poolOn(context, url) })
    .migrate()
    .then(() => {
      isDone = true;
    });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(isDone).toBe(false);
  await busy.query(UNLOCK_SQL);
  busy.release();
  await migrating;
});

test("a repeated migration changes nothing", async (context) => {
  const { pool, store } = await newStore(context);
  await store.claim(claimOf("a"));
  const before = await shapeOf(pool);
  await store.migrate();
  expect(await shapeOf(pool)).toEqual(before);
  expect((await store.read("id-a"))?.state).toBe("pending");
});

test("the statements of migrationSql create the same tables", async (context) => {
  const { pool } = await newStore(context);
  const byHand = poolOn(context, await newDatabase(context));
  for (const statement of migrationSql().split(";\n"))
    if (statement.trim() !== "") await byHand.query(statement);
  expect(await shapeOf(byHand)).toEqual(await shapeOf(pool));
  expect(await mysqlStore({ client: byHand }).claim(claimOf("a"))).toMatchObject({ status: "new" });
});

test("the previous version is refused, and migrate keeps its records", async (context) => {
  const pool = poolOn(context, await newDatabase(context));
  const [first] = MIGRATIONS;
  await pool.query(VERSIONS_TABLE);
  await pool.query(first?.sql ?? "");
  await pool.query(versionReachedSql(1));
  await pool.query(
    "INSERT INTO nevertwice_records (id, mark, namespace, scope, operation, `key`, state, token, spent, fence, " +
      "number, hold, took_over, claimed_at, lease_ms, lease_ends_at, retention_ms, kept_until, completed_at, outcome) " +
      "VALUES ('id-a', 'm', 'n', 's', 'o', 'a', 'completed', 't', 0, 7, 1, 0, 0, 1, 1, 1, 1, 9e15, 1, 'done')",
  );
  const store = mysqlStore({ client: pool });
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining(
      "have version 1; this version of nevertwice needs 2. Run migrate() once",
    ),
  });
  await store.migrate();
  expect(await store.claim(claimOf("a"))).toEqual({ status: "completed", outcome: "done" });
});

test("the next migration finishes one that crashed in the middle", async (context) => {
  const { pool, store } = await newStore(context);
  const whole = await shapeOf(pool);
  await store.claim(claimOf("a"));
  await pool.query("DELETE FROM nevertwice_versions WHERE version = 2");
  await store.migrate();
  expect(await shapeOf(pool)).toEqual(whole);
  await pool.query("DELETE FROM nevertwice_versions");
  await store.migrate();
  expect(await shapeOf(pool)).toEqual(whole);
  expect((await store.read("id-a"))?.state).toBe("pending");
});

test("a newer version is refused, by migrate too, and nothing is changed", async (context) => {
  const { pool } = await newStore(context);
  await pool.query(versionReachedSql(99));
  const before = await shapeOf(pool);
  const store = mysqlStore({ client: pool });
  const newer = {
    code: "store-unsafe",
    message: expect.stringContaining(
      "have version 99; this version of nevertwice knows 2. Upgrade nevertwice",
    ),
  };
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(newer);
  await expect(store.migrate()).rejects.toMatchObject(newer);
  expect(await shapeOf(pool)).toEqual(before);
});

test("a purge and a page use an index in a large table", async (context) => {
  const { pool } = await newStore(context);
  await pool.query(
    "INSERT INTO nevertwice_records (id, mark, namespace, state, token, spent, fence, number, hold, took_over, " +
      "claimed_at, lease_ms, lease_ends_at, retention_ms, kept_until) " +
      "SELECT CONCAT('id-', seq), 'm', 'n', 'pending', 't', 0, 1, 1, 0, 0, 1, 1, 9e15, 1, 9e15 FROM seq_1_to_20000",
  );
  const planOf = async (statement: string) => {
    // EXPLAIN does not take the limit in time, which comes first.
    const limited = statement.startsWith("/*") ? statement.slice(statement.indexOf("SELECT")) : statement;
    const [[plan]] = await pool.query<RowDataPacket[]>(`EXPLAIN ${limited}`);
    return { index: plan?.key, order: plan?.Extra.includes("filesort") };
  };
  expect(await planOf(expiredSql(0n, 100))).toEqual({ index: "nevertwice_kept_until", order: false });
  const page = scanSql({ namespace: "n" }, { claimedAt: 10n, id: "id-10", rows: 10 });
  expect(await planOf(page)).toEqual({ index: "nevertwice_claims", order: false });
  const ids = Array.from({ length: 100 }, (_, i) => `id-${i}`);
  expect(await planOf(purgeSql(ids))).toMatchObject({ index: "PRIMARY" });
});
