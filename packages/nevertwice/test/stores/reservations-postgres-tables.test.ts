/** Tests tables of reservations that an operator dropped or locked by hand. */
import type pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";
import { holding } from "./postgres/reservations.ts";
import { NAMESPACE, RULES, toHold } from "./reservation-requests.ts";

const TABLES = [
  "nevertwice_commitments",
  "nevertwice_resources",
  "nevertwice_reservation_keys",
  "nevertwice_reservation_events",
  "nevertwice_checkpoints",
];

function pooled(url: string, max = 4): pg.Pool {
  const pool = poolOf(url, { max });
  onTestFinished(() => pool.end());
  return pool;
}

test("migrate() creates tables again that were all dropped", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const store = postgresReservations({ client: pooled(url) });
  await store.migrate();
  await store.get(NAMESPACE, "x");
  await query(url, `DROP TABLE ${TABLES.join(", ")}`);
  await expect(store.get(NAMESPACE, "x")).rejects.toMatchObject({ code: "store-unsafe" });
  await store.migrate();
  expect(await store.get(NAMESPACE, "x")).toMatchObject({ commitment: undefined });
});

test("if only some tables were dropped, migrate() says what to do and changes nothing", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const store = postgresReservations({ client: pooled(url) });
  await store.migrate();
  await query(url, "DROP TABLE nevertwice_checkpoints");
  await expect(store.migrate()).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringMatching(
      /restore them, or drop all of .*nevertwice_checkpoints.* and run migrate\(\) again/,
    ),
  });
  await query(url, `DROP TABLE IF EXISTS ${TABLES.join(", ")}`);
  await store.migrate();
  expect(await store.get(NAMESPACE, "x")).toMatchObject({ commitment: undefined });
});

test("a table that another session locked blocks no connection: the action is reported as not written", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const pool = pooled(url, 1);
  const store = postgresReservations({ client: pool });
  await store.migrate();
  const unlock = await holding(url, "LOCK TABLE nevertwice_reservation_keys IN ACCESS EXCLUSIVE MODE");
  await expect(store.transact([toHold("room")], RULES)).rejects.toThrow();
  expect(pool.totalCount - pool.idleCount).toBe(0);
  await unlock();
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
});
