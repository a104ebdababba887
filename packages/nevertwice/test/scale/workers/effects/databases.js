/** Opens the databases of the trials, and the stores in them. */
import { watchConnection } from "./points.js";

/** @typedef {(file: string) => Promise<any>} Load imports a file of the built library, which may have a bug planted */

/** A claim of a killed process lapses after both together. Both are long enough for a busy machine. */
export const LIMITS = { transactionMs: 1_000, storeTimeoutMs: 1_000 };
const CONNECTIONS = 4;

/** @param {string} url @param {Load} load */
export async function openPg(url, load) {
  const { default: pg } = await import("pg");
  const { postgresStore } = await load("stores/postgres.js");
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  pool.on("error", () => {});
  return { pool, store: postgresStore({ client: pool }), close: () => pool.end() };
}

/** @param {string} url @param {Load} load */
export async function openPostgresJs(url, load) {
  const { default: postgres } = await import("postgres");
  const { postgresStore } = await load("stores/postgres.js");
  // A prepared statement is sent without its text, by which the points recognise it.
  const sql = postgres(url, { max: CONNECTIONS, prepare: false, onnotice: () => {} });
  return { sql, store: postgresStore({ client: sql }), close: () => sql.end({ timeout: 1 }) };
}

/** @param {string} url @param {Load} load */
export async function openMysql(url, load) {
  const { createPool } = await import("mysql2/promise");
  const { mysqlStore } = await load("stores/mysql.js");
  const pool = createPool({ uri: url, connectionLimit: CONNECTIONS });
  return { pool, store: mysqlStore({ client: pool }), close: () => pool.end() };
}

/** @param {string} url @param {Load} load */
export async function openSqlite(url, load) {
  const { DatabaseSync } = await import("@photostructure/sqlite");
  const { sqliteStore } = await load("stores/sqlite.js");
  const database = new DatabaseSync(url.slice("sqlite:".length));
  database.exec("PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  const connection = watchConnection(database);
  return { connection, store: sqliteStore({ database: connection }), close: () => database.close() };
}
