/** Tests what `guard.transaction` sends to Postgres on a `pg` Pool (src/transaction/pg.ts): how many messages, and what is prepared. */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import postgres from "postgres";
import { expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl } from "../services/services.ts";
import { poolOf, query, withPath } from "./postgres/database.ts";
import { onPostgres } from "./transaction/scene.ts";

const insert = async (tx: pg.PoolClient, key: string) => {
  await tx.query("INSERT INTO ledger VALUES ($1)", [key]);
  return key;
};

/** A pool that ends with the test. */
function pooled(url: string): pg.Pool {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return pool;
}

/** How many of our statements the connection has prepared. */
const PREPARED =
  "SELECT count(*)::int AS count FROM pg_prepared_statements WHERE name LIKE 'nevertwice%inside%'";

test("a first call takes four round trips, one of them the work's, and a replay one", async (context) => {
  const { url, guard: direct } = await onPostgres(context);
  await direct.close();
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  const pool = pooled(proxy.url);
  const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });
  const pay = (key: string) => guard.transaction({ operation: "pay", key }, pool, (tx) => insert(tx, key));
  // The first transactions on each connection prepare the statements.
  for (const key of ["warm 1", "warm 2", "warm 3"]) await pay(key);

  const first = proxy.countRequests("postgres");
  expect(await pay("counted")).toBe("counted");
  expect(first.names).toEqual(["Sync", "Query", "Sync", "Query"]);
  const replay = proxy.countRequests("postgres");
  expect(await pay("counted")).toBe("counted");
  expect(replay.names).toEqual(["Sync"]);
});

test("transactions behind PgBouncer in transaction mode work, whatever its connections have prepared", async (context) => {
  const { url, guard, rows } = await onPostgres(context);
  const bounced = withPath(sharedUrl(context, "pgbouncer"), new URL(url).pathname.slice(1));
  const pools = [pooled(bounced), pooled(bounced)];
  const keys = Array.from({ length: 60 }, () => randomUUID());
  const paid = await Promise.all(
    keys.map((key, index) =>
      guard.transaction({ operation: "pay", key }, pools[index % 2] as pg.Pool, (tx) => insert(tx, key)),
    ),
  );
  expect(paid).toEqual(keys);
  expect(await rows()).toBe(keys.length);
});

test("work that removes the prepared statements of its connection still completes, once", async (context) => {
  const { url, guard, rows } = await onPostgres(context);
  const pool = pooled(url);
  const pay = (key: string, extra: string) =>
    guard.transaction({ operation: "pay", key }, pool, async (tx) => {
      await tx.query(extra);
      return insert(tx, key);
    });
  await pay("first", "SELECT 1");
  expect(await pay("second", "DEALLOCATE ALL")).toBe("second");
  expect(await pay("third", "SELECT 1")).toBe("third");
  expect(await rows()).toBe(3);
});

test("statements that another pool or program has prepared on the connection do not matter", async (context) => {
  const { url, guard, rows } = await onPostgres(context);
  const pool = poolOf(url, { max: 1 });
  onTestFinished(() => pool.end());
  const pay = (key: string) => guard.transaction({ operation: "pay", key }, pool, (tx) => insert(tx, key));
  await pay("first");
  expect((await pool.query(PREPARED)).rows[0].count).toBeGreaterThan(0);
  // The connection forgets what it has prepared, as after DISCARD ALL of a proxy.
  await pool.query("DISCARD ALL");
  expect(await pay("second")).toBe("second");
  expect(await rows()).toBe(2);
});

test.for([
  ["backslash_quote", "off"],
  ["standard_conforming_strings", "off"],
  ["client_encoding", "GBK"],
])("the outcome is stored unchanged on a connection with %s = %s", async ([setting, value], context) => {
  const { url, guard } = await onPostgres(context);
  const pool = pooled(url);
  // In GBK the bytes of é and a backslash would be one character, and the quote would end the string.
  const outcome = { text: "it's é\\' OR \\\\''; ünï € \\" };
  const request = { operation: "pay", key: `${setting} ${value}` };
  const paid = await guard.transaction(request, pool, async (tx) => {
    await tx.query(`SET LOCAL ${setting} = '${value}'`);
    return outcome;
  });
  expect(paid).toEqual(outcome);
  expect(await guard.transaction(request, pool, () => Promise.reject(new Error("runs once")))).toEqual(
    outcome,
  );
});

test("the outcome is stored unchanged by postgres.js on a connection with another encoding", async (context) => {
  const { url, guard } = await onPostgres(context);
  const sql = postgres(url, { max: 1, onnotice() {} });
  onTestFinished(() => sql.end());
  const request = { operation: "pay", key: "postgres.js in GBK" };
  const paid = await guard.transaction(request, sql, async (tx) => {
    await tx.unsafe("SET LOCAL client_encoding = 'GBK'");
    return "é\\' ünï 中";
  });
  expect(paid).toBe("é\\' ünï 中");
  expect(await guard.transaction(request, sql, () => Promise.reject(new Error("runs once")))).toBe(paid);
});

test("a store that must not prepare statements prepares none in transactions either", async (context) => {
  const { url, guard: prepared, rows } = await onPostgres(context);
  await prepared.close();
  const pool = poolOf(url, { max: 1 });
  const records = pooled(url);
  onTestFinished(() => pool.end());
  const guard = createGuard({ store: postgresStore({ client: records, prepare: false }), purgeEveryMs: 0 });
  const before = await rows();
  expect(await guard.transaction({ operation: "pay", key: "plain" }, pool, (tx) => insert(tx, "plain"))).toBe(
    "plain",
  );
  expect(await rows()).toBe(before + 1);
  expect((await pool.query("SELECT name FROM pg_prepared_statements")).rows).toEqual([]);
});

test("a record that is gone at the end of the work rolls the work back", async (context) => {
  const { url, guard, rows } = await onPostgres(context);
  const pool = pooled(url);
  const lost = guard.transaction({ operation: "pay", key: "removed" }, pool, async (tx) => {
    await insert(tx, "removed");
    await tx.query("DELETE FROM nevertwice_records");
  });
  await expect(lost).rejects.toMatchObject({ code: "lease-lost" });
  expect(await rows()).toBe(0);
});

test.for([
  ["a check that fails at COMMIT", "22012", "SELECT 1 / 0"],
  ["an error at COMMIT with the text of the library's own", "P0001", "SELECT raise('nevertwice:lost0')"],
] as const)("%s is an error of the work, which is rolled back", async ([, code, statement], context) => {
  const { url, guard, rows } = await onPostgres(context);
  await query(
    url,
    `CREATE OR REPLACE FUNCTION raise(message text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '"%"', message; END $$;
     CREATE OR REPLACE FUNCTION check_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN EXECUTE '${statement.replaceAll("'", "''")}'; RETURN NULL; END $$;
     CREATE CONSTRAINT TRIGGER checked AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION check_ledger()`,
  );
  onTestFinished(async () => void (await query(url, "DROP TRIGGER checked ON ledger")));
  const request = { operation: "pay", key: code };
  const paid = guard.transaction(request, pooled(url), (tx) => insert(tx, "checked"));
  await expect(paid).rejects.toMatchObject({ code });
  expect(await rows()).toBe(0);
});
