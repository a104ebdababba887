/** Tests reservations on Postgres with the cases of every reservation store, with each driver. */
import postgres from "postgres";
import { inject } from "vitest";
import { type PostgresClient, postgresReservations } from "../../src/reservations/postgres.ts";
import { type OpenedStore, reservationStoreSuite } from "../reservations/store-suite.ts";
import { createDatabase, poolOf, withPath } from "./postgres/database.ts";

const { postgres: serverUrl, pgbouncer: bouncerUrl } = inject("services");

async function opened(
  client: PostgresClient,
  end: () => Promise<void>,
  options: { readonly prepare?: boolean; readonly schema?: string } = {},
): Promise<OpenedStore> {
  const store = postgresReservations({ client, ...options });
  await store.migrate();
  return { store, close: end };
}

reservationStoreSuite(
  "Postgres by pg",
  async () => {
    const pool = poolOf(await createDatabase(serverUrl as string));
    return opened(pool, () => pool.end());
  },
  { service: "postgres" },
);

reservationStoreSuite(
  "Postgres by postgres.js, in its own schema",
  async () => {
    const sql = postgres(await createDatabase(serverUrl as string), { max: 8, onnotice: () => {} });
    return opened(sql, () => sql.end({ timeout: 1 }), { schema: "held" });
  },
  { service: "postgres" },
);

reservationStoreSuite(
  "Postgres behind PgBouncer in transaction mode",
  async () => {
    const name = new URL(await createDatabase(serverUrl as string)).pathname.slice(1);
    const pool = poolOf(withPath(bouncerUrl as string, name));
    return opened(pool, () => pool.end(), { prepare: false });
  },
  { service: "pgbouncer" },
);
