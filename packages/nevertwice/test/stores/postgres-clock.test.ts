/** Tests the published cases on a server whose clock is moved, back too. */
import type pg from "pg";
import { afterAll, beforeAll } from "vitest";
import { postgresStore } from "../../src/stores/postgres.ts";
import { startPostgres } from "../services/postgres.ts";
import type { Server } from "../services/server.ts";
import { describeStoreCases } from "./cases.ts";
import { poolOf } from "./postgres/database.ts";

let server: Server;
let pool: pg.Pool;

beforeAll(async () => {
  server = await startPostgres({ clock: true, settings: { fsync: "off" } });
  pool = poolOf(server.url);
  await postgresStore({ client: pool }).migrate();
});

afterAll(async () => {
  await pool?.end();
  await server?.stop();
});

describeStoreCases(
  "Postgres with a clock that is moved",
  () => ({
    store: postgresStore({ client: pool, subscriber: pool }),
    advance: (ms) => server.stepClock(ms),
  }),
  { service: "postgres", oneByOne: true, row: "Postgres" },
);
