/** Tests the published cases, for each client that the Postgres store takes. */
import type pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, inject } from "vitest";
import { postgresStore } from "../../src/stores/postgres.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases } from "./cases.ts";
import { createDatabase, poolOf, setFor, withPath } from "./postgres/database.ts";

const { postgres: serverUrl, pgbouncer: bouncerUrl } = inject("services");

let pool: pg.Pool;
let sql: postgres.Sql;
let bounced: pg.Pool;
let serializable: pg.Pool;

beforeAll(async () => {
  if (typeof serverUrl !== "string") return;
  const url = await createDatabase(serverUrl);
  pool = poolOf(url, { max: 30 });
  sql = postgres(url, { max: 10 });
  await postgresStore({ client: pool }).migrate();
  const apart = await createDatabase(serverUrl);
  await setFor(apart, { default_transaction_isolation: "serializable" });
  serializable = poolOf(apart, { max: 30 });
  await postgresStore({ client: serializable }).migrate();
  if (typeof bouncerUrl === "string") bounced = poolOf(withPath(bouncerUrl, new URL(url).pathname.slice(1)));
});

afterAll(async () => {
  await Promise.all([pool?.end(), sql?.end(), bounced?.end(), serializable?.end()]);
});

describeStoreCases("Postgres by a pg Pool", () => postgresStore({ client: pool, subscriber: pool }), {
  service: "postgres",
  without: CLOCK_CANNOT_GO_BACK,
});

describeStoreCases("Postgres by postgres.js", () => postgresStore({ client: sql, subscriber: sql }), {
  service: "postgres",
  without: CLOCK_CANNOT_GO_BACK,
});

// LISTEN needs a connection that is not shared, so the subscriber connects to the server directly.
describeStoreCases(
  "Postgres behind PgBouncer",
  () => postgresStore({ client: bounced, prepare: false, subscriber: pool }),
  { service: "pgbouncer", without: CLOCK_CANNOT_GO_BACK },
);

describeStoreCases(
  "Postgres where transactions are serializable by default",
  () => postgresStore({ client: serializable, subscriber: serializable }),
  { service: "postgres", without: CLOCK_CANNOT_GO_BACK },
);
