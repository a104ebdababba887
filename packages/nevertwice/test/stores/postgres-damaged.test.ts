/** Tests damaged records among the calls of one statement on Postgres, and in the way of a purge. */
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest";
import { type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

const { postgres: serverUrl } = inject("services");

let url: string;
let proxy: FaultProxy;
let pool: pg.Pool;
let store: PostgresStore;

beforeAll(async () => {
  if (typeof serverUrl !== "string") return;
  url = await createDatabase(serverUrl);
  proxy = await startProxy(url);
  pool = poolOf(proxy.url);
  store = postgresStore({ client: pool });
  await store.migrate();
});

afterAll(async () => {
  await pool?.end();
  await proxy?.stop();
});

beforeEach(async ({ skip }) => {
  if (typeof serverUrl !== "string") skip(serverUrl.skipped);
  await query(url, "DELETE FROM nevertwice_records");
});

async function damage(ids: readonly string[], set: string): Promise<void> {
  await query(url, `UPDATE nevertwice_records SET ${set} WHERE id IN (${ids.map((id) => `'\\x${id}'`)})`);
}

/** Runs the calls at once. Returns the result of each, and how many statements they took. */
async function atOnce(calls: readonly (() => Promise<unknown>)[]) {
  const statements = proxy.countRequests("postgres");
  const settled = await Promise.allSettled(calls.map((call) => call()));
  const said = settled.map((each) => (each.status === "fulfilled" ? each.value : String(each.reason)));
  return { said, statements: statements.count };
}

const claims = Array.from({ length: 20 }, () => claimOf());
const DAMAGED = 7;
const others = <T>(all: readonly T[]) => all.filter((_, index) => index !== DAMAGED);

const WAITING =
  "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

const STEPS: Readonly<Record<string, (claim: (typeof claims)[number]) => Promise<unknown>>> = {
  claims: async (claim) => (await store.claim({ ...claim, token: "another's" })).status === "pending",
  "own claims": async (claim) => (await store.claim(claim)).status === "new",
  renewals: (claim) => store.renew(claim),
  reads: async (claim) => (await store.read(claim.id))?.state === "pending",
  releases: (claim) => store.abandon({ ...claim, as: "released" }),
  completions: (claim) => store.complete(completionOf(claim)),
};

for (const [name, step] of Object.entries(STEPS)) {
  test(`damaged-record: of ${name} in one statement, only the call on the damaged record fails`, async () => {
    await Promise.all(claims.map((claim) => store.claim(claim)));
    const id = claims[DAMAGED]?.id as string;
    await damage([id], "retention = 9222000000000000000, lease_ends_at = -9222000000000000000");
    const { said, statements } = await atOnce(claims.map((claim) => () => step(claim)));
    expect(said[DAMAGED]).toMatch(
      new RegExp(`store-unsafe: the record ${id} is damaged: its lease_ends_at has a value`),
    );
    expect(others(said)).toEqual(others(said).map(() => true));
    // Nothing was repeated call by call.
    expect(statements).toBeLessThan(5);
  });
}

test("damaged-record: a call does not decide by a record that was damaged while it waited", async () => {
  const [given, running] = claims as [(typeof claims)[number], (typeof claims)[number]];
  await Promise.all([store.claim(given), store.claim(running)]);
  await store.abandon({ ...given, as: "released" });
  const writer = poolOf(url, { max: 1 });
  try {
    await writer.query("BEGIN");
    // Its deadline looks expired, so the next claim would start from the beginning.
    await writer.query("UPDATE nevertwice_records SET state = 'pending', kept_until = 1, retention = -1");
    const waiting = [store.claim({ ...given, token: "another's" }), store.complete(completionOf(running))];
    const all = Promise.allSettled(waiting);
    await until(async () => (await query(url, WAITING)).length === waiting.length);
    await writer.query("COMMIT");
    for (const each of await all)
      expect(each).toMatchObject({ status: "rejected", reason: { code: "store-unsafe" } });
  } finally {
    await writer.end();
  }
});

test("damaged-record: the error names the damaged column", async () => {
  const [claim] = claims;
  const id = claim?.id as string;
  await store.claim(claim as (typeof claims)[number]);
  await store.complete(completionOf(claim as (typeof claims)[number]));
  for (const [column, value] of [
    ["state", "'done'"],
    ["state", "'pending'"],
    ["outcome", "NULL"],
    ["completed_at", "NULL"],
    ["kept_until", "completed_at - 1"],
    ["token", "''"],
    ["fence", "9007199254740992"],
    ["number", "0"],
    ["parts", "'kept'"],
    ["parts", `'["n","s","o"]'`],
  ] as const) {
    const [row] = await query<{ was: string }>(
      url,
      `SELECT to_json(r)::text AS was FROM nevertwice_records AS r WHERE id = '\\x${id}'`,
    );
    await damage([id], `${column} = ${value}`);
    const named = value === "'pending'" ? "completed_at" : column;
    await expect(store.read(id), `${column} = ${value}`).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining(`the record ${id} is damaged: its ${named} has a value`),
    });
    const was = `json_populate_record(NULL::nevertwice_records, '${row?.was.replaceAll("'", "''")}')`;
    await query(url, `UPDATE nevertwice_records SET ${column} = was.${column} FROM ${was} AS was`);
    expect(await store.read(id)).toMatchObject({ state: "completed", outcome: "done" });
  }
});

test("damaged-record: a purge removes no damaged record, and damaged records do not stop it", async () => {
  await Promise.all(claims.map((claim) => store.claim(claim)));
  await Promise.all(claims.map((claim) => store.complete(completionOf(claim))));
  const [expired, tooEarly, ...damaged] = claims.map(({ id }) => id) as [string, string, ...string[]];
  await damage(damaged, "kept_until = 1, purge_at = 1");
  await damage([tooEarly], "purge_at = 1");
  await damage(
    [expired],
    "claimed_at = 1, lease_ends_at = 1, completed_at = 1, kept_until = 2, purge_at = 3",
  );
  expect(await store.purge(1)).toEqual({ removed: 1, more: true });
  expect(await store.purge(1)).toEqual({ removed: 0, more: false });
  const { records, unreadable } = (await store.list?.({ namespace: "n", limit: 100 })) ?? {};
  expect(records?.map(({ id }) => id)).toEqual([tooEarly]);
  expect(unreadable?.map(({ id }) => id).sort()).toEqual(damaged.toSorted());
});

test("damaged-record: a page of a list reports damaged records of any state, and continues after them", async () => {
  await Promise.all(claims.map((claim) => store.claim(claim)));
  const rows = await query<{ id: string }>(
    url,
    "SELECT encode(id, 'hex') AS id FROM nevertwice_records ORDER BY claimed_at DESC, id DESC",
  );
  const ids = rows.map(({ id }) => id);
  await damage(ids.slice(1, 3), "kept_until = 1");
  const page = await store.list?.({ namespace: "n", limit: 3, state: "pending" });
  expect(page?.records.map(({ id }) => id)).toEqual([ids[0]]);
  expect(page?.unreadable).toEqual(
    ids.slice(1, 3).map((id) => ({ id, reason: expect.stringContaining("its kept_until has a value") })),
  );
  const rest = await store.list?.({
    namespace: "n",
    limit: 100,
    state: "pending",
    after: page?.next as string,
  });
  expect(rest?.records.map(({ id }) => id)).toEqual(ids.slice(3));
  const completed = await store.list?.({ namespace: "n", limit: 100, state: "completed" });
  expect(completed?.unreadable).toHaveLength(2);
});

test("damaged-record: an operator cannot forget a damaged record", async () => {
  const claim = claimOf();
  const answer = await store.claim(claim);
  await store.complete(completionOf(claim));
  await damage([claim.id], "kept_until = 1");
  const fence = "fence" in answer ? answer.fence : 0;
  for (const reopen of [false, true])
    await expect(store.forget?.({ id: claim.id, fence, reopen })).rejects.toMatchObject({
      code: "store-unsafe",
    });
  const rows = await query(url, `SELECT state, outcome FROM nevertwice_records WHERE id = '\\x${claim.id}'`);
  expect(rows).toEqual([{ state: "completed", outcome: "done" }]);
});
