/**
 * Guards on real databases that have a table `ledger`, whose rows count what was committed without asking the library. The
 * tests of a file share a database, which is emptied for each of them: to create one takes longer than most tests.
 */
import type { Pool } from "mysql2/promise";
import { onTestFinished, type TestContext } from "vitest";
import { createGuard, type Guard } from "../../../src/index.ts";
import { type MysqlStore, mysqlStore } from "../../../src/stores/mysql.ts";
import { migrationSql, postgresStore } from "../../../src/stores/postgres.ts";
import { sharedUrl } from "../../services/services.ts";
import { newDatabase, poolOn } from "../mysql/pools.ts";
import { createDatabase, poolOf, query } from "../postgres/database.ts";

export interface LedgerScene {
  readonly url: string;
  readonly guard: Guard;
  rows(): Promise<number>;
}

let postgresUrl: string | undefined;
let mysqlUrl: string | undefined;

/** The URL of a database with empty tables. */
export async function emptyPostgres(context: TestContext): Promise<string> {
  postgresUrl ??= await createDatabase(sharedUrl(context, "postgres"));
  const ledger = "CREATE TABLE IF NOT EXISTS ledger (key text NOT NULL)";
  await query(postgresUrl, `${migrationSql()}; ${ledger}; TRUNCATE ledger, nevertwice_records`);
  return postgresUrl;
}

/** A store on empty tables. */
export async function emptyMysql(
  context: TestContext,
): Promise<{ url: string; pool: Pool; store: MysqlStore }> {
  mysqlUrl ??= await newDatabase(context);
  const pool = poolOn(context, mysqlUrl);
  const store = mysqlStore({ client: pool });
  await store.migrate();
  await pool.query("CREATE TABLE IF NOT EXISTS ledger (`key` VARCHAR(64) NOT NULL) ENGINE = InnoDB");
  await pool.query("DELETE FROM ledger");
  await pool.query("DELETE FROM nevertwice_records");
  return { url: mysqlUrl, pool, store };
}

export async function onPostgres(context: TestContext): Promise<LedgerScene> {
  const url = await emptyPostgres(context);
  const pool = poolOf(url);
  const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });
  onTestFinished(async () => {
    await guard.close();
    await pool.end();
  });
  const count = () => query<{ count: string }>(url, "SELECT count(*) FROM ledger");
  return { url, guard, rows: async () => Number((await count())[0]?.count) };
}

export async function onMysql(context: TestContext): Promise<LedgerScene> {
  const { url, pool, store } = await emptyMysql(context);
  const guard = createGuard({ store, purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  const count = async () =>
    (await pool.query("SELECT COUNT(*) AS count FROM ledger"))[0] as { readonly count: unknown }[];
  return { url, guard, rows: async () => Number((await count())[0]?.count) };
}
