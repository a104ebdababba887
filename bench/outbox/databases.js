/** A new database with an outbox, the producers' side of it, and the processor time of its server. */
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import mysql from "mysql2/promise";
import { createOutbox } from "nevertwice/outbox";
import pg from "pg";

export async function openDatabase(database, url) {
  return { postgres: openPostgres, mariadb: openMariadb, sqlite: openSqlite }[database](url);
}

async function openPostgres(server) {
  const name = `outbox_${randomUUID().slice(0, 8)}`;
  const admin = new pg.Pool({ connectionString: server, max: 1 });
  await admin.query(`CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href;
  const pool = new pg.Pool({ connectionString: url, max: 16 });
  // Its last connections may still be closing when the database is dropped.
  pool.on("error", () => {});
  const outbox = createOutbox({ client: pool });
  await outbox.migrate();
  const { rows } = await admin.query("SELECT pg_read_file('postmaster.pid') AS file");
  const postmaster = Number(rows[0].file.split("\n")[0]);
  return {
    url,
    async sendAll(messages) {
      const client = await pool.connect();
      await client.query("BEGIN");
      await outbox.sendAll(client, messages);
      await client.query("COMMIT");
      client.release();
    },
    undelivered: async () => (await outbox.figures()).undelivered,
    serverCpu: async () => processMicros(postmaster) + childrenMicros(postmaster),
    async close() {
      await outbox.close();
      await pool.end();
      await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
      await admin.end();
    },
  };
}

async function openMariadb(server) {
  const name = `outbox_${randomUUID().slice(0, 8)}`;
  const admin = mysql.createPool({ uri: server, connectionLimit: 1 });
  await admin.query(`CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href;
  const pool = mysql.createPool({ uri: url, connectionLimit: 16 });
  const outbox = createOutbox({ client: pool });
  await outbox.migrate();
  const [rows] = await admin.query("SELECT @@pid_file AS file");
  const daemon = Number(readFileSync(rows[0].file, "utf8"));
  return {
    url,
    async sendAll(messages) {
      const connection = await pool.getConnection();
      await connection.query("START TRANSACTION");
      await outbox.sendAll(connection, messages);
      await connection.query("COMMIT");
      connection.release();
    },
    undelivered: async () => (await outbox.figures()).undelivered,
    serverCpu: async () => processMicros(daemon),
    async close() {
      await outbox.close();
      await pool.end();
      await admin.query(`DROP DATABASE ${name}`);
      await admin.end();
    },
  };
}

async function openSqlite() {
  const file = join(tmpdir(), `outbox-${randomUUID()}.db`);
  const database = new DatabaseSync(file);
  database.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  const outbox = createOutbox({ database });
  await outbox.figures();
  return {
    url: `sqlite:${file}`,
    async sendAll(messages) {
      database.exec("BEGIN IMMEDIATE");
      outbox.sendAll(database, messages);
      database.exec("COMMIT");
      // Lets the messages of the relay in: everything above is synchronous.
      await new Promise((resolve) => setImmediate(resolve));
    },
    undelivered: async () => (await outbox.figures()).undelivered,
    serverCpu: async () => undefined,
    async close() {
      await outbox.close();
      database.close();
      for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
    },
  };
}

const MICROS_PER_TICK = 10_000;

/** User and system time of a process and of its children that have ended, as Linux counts them. */
function processMicros(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * MICROS_PER_TICK;
}

function childrenMicros(parent) {
  let micros = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
      if (Number(fields[1]) === parent) micros += processMicros(pid);
    } catch {
      // It ended meanwhile, and its parent counts it.
    }
  }
  return micros;
}
