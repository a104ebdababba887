/** The rows of this library: one for each of four stores, with everything else at its default. */

import { sharedStore } from "../process-store.js";
import { countRedis, flushRedis, onPostgres, onSqlite } from "../records.js";
import { nevertwice } from "./nevertwice.js";

const DEFAULTS = "retention 24 h, lease 30 s, renewed while the work runs";

export const nevertwiceRows = [
  nevertwice({
    name: "nevertwice-memory",
    title: "nevertwice, memory",
    settings: `\`memoryStore()\`; ${DEFAULTS}.`,
    // The default limit of 100,000 records would refuse the end of the backlog.
    openStore: async (target, options) => {
      const { memoryStore } = await import("nevertwice/stores/memory");
      return { store: sharedStore(target, options, () => memoryStore({ maxRecords: 1_000_000 })) };
    },
    loseRecords: (target) => target.emptyStore(),
    backlog: 100_000,
    clients: { "no client": undefined },
  }),
  nevertwice({
    name: "nevertwice-sqlite",
    title: "nevertwice, SQLite",
    packages: ["@photostructure/sqlite"],
    settings: `\`sqliteStore({ file })\`; ${DEFAULTS}.`,
    place: "file",
    isShared: true,
    openStore: async ({ file }, { client }) => {
      const { sqliteStore } = await import("nevertwice/stores/sqlite");
      if (client !== "DatabaseSync") return { store: sqliteStore({ file }) };
      const { DatabaseSync } = await import("@photostructure/sqlite");
      const database = new DatabaseSync(file);
      return { store: sqliteStore({ database }), close: async () => database.close() };
    },
    loseRecords: ({ file }) => onSqlite(file, (database) => database.exec("DELETE FROM nevertwice_records")),
    countRecords: ({ file }) =>
      onSqlite(file, (database) => database.prepare("SELECT count(*) AS n FROM nevertwice_records").get().n),
    clients: { file: undefined, DatabaseSync: undefined },
  }),
  nevertwice({
    name: "nevertwice-redis",
    title: "nevertwice, Redis",
    packages: ["ioredis"],
    settings: `\`redisStore({ client })\` with ioredis; ${DEFAULTS}.`,
    place: "redis",
    isShared: true,
    openStore: async ({ url }, { client: name }) => {
      const { redisStore } = await import("nevertwice/stores/redis");
      if (name === "redis") {
        const { createClient } = await import("redis");
        const client = createClient({ url });
        client.on("error", () => {});
        await client.connect();
        return { store: redisStore({ client }), close: async () => client.destroy() };
      }
      const { Redis } = await import("ioredis");
      const client = new Redis(url);
      // Scenarios break the connection, and ioredis prints what no listener takes.
      client.on("error", () => {});
      return { store: redisStore({ client }), close: async () => client.disconnect() };
    },
    loseRecords: ({ directUrl }) => flushRedis(directUrl),
    countRecords: ({ directUrl }) => countRedis(directUrl),
    clients: { ioredis: undefined, redis: undefined },
  }),
  nevertwice({
    name: "nevertwice-postgres",
    title: "nevertwice, Postgres",
    packages: ["pg"],
    settings: `\`postgresStore({ client: pool })\` with pg, 10 connections; ${DEFAULTS}.`,
    place: "postgres",
    isShared: true,
    openStore: async ({ url }, { client: name }) => {
      const { postgresStore } = await import("nevertwice/stores/postgres");
      if (name === "postgres") {
        const { default: postgres } = await import("postgres");
        const sql = postgres(url, { max: 10, onnotice: () => {} });
        const store = postgresStore({ client: sql });
        await store.migrate();
        return { store, close: () => sql.end({ timeout: 1 }) };
      }
      const { default: pg } = await import("pg");
      const client = new pg.Pool({ connectionString: url, max: 10 });
      client.on("error", () => {});
      const store = postgresStore({ client });
      await store.migrate();
      return { store, close: () => client.end() };
    },
    loseRecords: ({ directUrl }) => onPostgres(directUrl, "DELETE FROM nevertwice_records"),
    async countRecords({ directUrl }) {
      const { rows } = await onPostgres(directUrl, "SELECT count(*)::int AS n FROM nevertwice_records");
      return rows[0].n;
    },
    clients: { pg: undefined, postgres: undefined },
  }),
];
