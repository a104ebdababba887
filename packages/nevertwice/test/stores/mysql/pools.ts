/** Databases, pools and requests for the tests of the MySQL store. */
import { randomBytes } from "node:crypto";
import { createPool, type Pool, type PoolOptions } from "mysql2/promise";
import type { TestContext } from "vitest";
import { type MysqlStore, mysqlStore } from "../../../src/stores/mysql.ts";
import { sharedUrl } from "../../services/services.ts";

export function poolOn(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  url: string,
  options: PoolOptions = {},
): Pool {
  const pool = createPool({ uri: url, ...options });
  onTestFinished(() => pool.end());
  return pool;
}

/** A pool that runs this statement first on each new connection. */
export function poolRunningFirst(context: TestContext, url: string, sql: string): Pool {
  const pool = poolOn(context, url);
  pool.on("connection", (connection) => void connection.query(sql));
  return pool;
}

/** Creates a database for one test on the shared server; returns its URL. */
export async function newDatabase(context: TestContext): Promise<string> {
  const url = new URL(sharedUrl(context, "mysql"));
  const name = `test_${randomBytes(6).toString("hex")}`;
  await poolOn(context, url.href).query(`CREATE DATABASE ${name}`);
  url.pathname = name;
  return url.href;
}

/** A store in a new database. */
export async function newStore(
  context: TestContext,
): Promise<{ url: string; pool: Pool; store: MysqlStore }> {
  const url = await newDatabase(context);
  const pool = poolOn(context, url);
  const store = mysqlStore({ client: pool });
  await store.migrate();
  return { url, pool, store };
}

/** The URL with another user, database or port. */
export function urlWith(url: string, change: (url: URL) => void): string {
  const changed = new URL(url);
  change(changed);
  return changed.href;
}
