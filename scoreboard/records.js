/** What a scenario does to the records of a store from outside of the library: counts them, and removes all of them. */
import { connectRedis } from "./redis-client.js";

export async function onSqlite(file, use) {
  const { DatabaseSync } = await import("@photostructure/sqlite");
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA busy_timeout = 5000");
    return use(database);
  } finally {
    database.close();
  }
}

export async function onPostgres(url, text) {
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}

export async function flushRedis(url) {
  const client = await connectRedis(url, {});
  await client.flushDb();
  client.destroy();
}

export async function countRedis(url) {
  const client = await connectRedis(url, {});
  const size = await client.dbSize();
  client.destroy();
  return size;
}
