/** Tests held records in Postgres: their completions write to no index, and those that lapse are found and never purged. */
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { ClaimRequest, Store, UndecidedReport } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

const MINUTE_US = 60_000_000;
const DAY_US = 1_440 * MINUTE_US;

let url: string;
let store: PostgresStore;

function openStore(): PostgresStore {
  const client = poolOf(url);
  onTestFinished(() => client.end());
  return postgresStore({ client });
}

beforeEach(async (context) => {
  url = await createDatabase(sharedUrl(context, "postgres"));
  store = openStore();
  await store.migrate();
});

const heldClaim = (more: Partial<ClaimRequest> = {}) => claimOf(undefined, { hold: true, ...more });

/** Claims, and makes the record as old as if it had been claimed so long ago. */
async function claimAgo(ago: number, more: Partial<ClaimRequest> = {}): Promise<ClaimRequest> {
  const claim = heldClaim(more);
  expect(await store.claim(claim)).toMatchObject({ status: "new" });
  await age(claim, ago);
  return claim;
}

async function age({ id }: { readonly id: string }, ago: number): Promise<void> {
  const columns = ["claimed_at", "lease_ends_at", "completed_at", "kept_until", "purge_at"];
  const older = columns.map((column) => `${column} = ${column} - ${ago}`).join(", ");
  await query(url, `UPDATE nevertwice_records SET ${older} WHERE id = '\\x${id}'`);
}

async function purgeAtOf({ id }: { readonly id: string }): Promise<string | null | undefined> {
  const rows = await query<{ purge_at: string | null }>(
    url,
    `SELECT purge_at FROM nevertwice_records WHERE id = '\\x${id}'`,
  );
  return rows[0]?.purge_at;
}

async function undecided(of: Store = store): Promise<UndecidedReport> {
  const report = await of.undecided?.({ namespace: "n", limit: 1_000 });
  if (report === undefined) throw new Error("the store counts nothing");
  return report;
}

async function purgeAll(of: Store = store): Promise<number> {
  for (let removed = 0, batches = 0; batches < 100; batches++) {
    const report = await of.purge(100);
    removed += report.removed;
    if (!report.more) return removed;
  }
  throw new Error("the purge did not end");
}

/** A page has room for all versions of its records, also while no old one can be removed. */
const leaveRoom = () => query(url, "ALTER TABLE nevertwice_records SET (fillfactor = 25)");

/** The updates that wrote to no index, and all of them, once a session that has ended has reported as many. */
async function updatesOf(least: number): Promise<{ readonly hot: number; readonly all: number }> {
  const counts = `SELECT n_tup_hot_upd::int AS hot, n_tup_upd::int AS all FROM pg_stat_user_tables
    WHERE relname = 'nevertwice_records'`;
  const read = async () => (await query<{ hot: number; all: number }>(url, counts))[0];
  await until(async () => Number((await read())?.all) >= least, 20_000);
  return (await read()) as { hot: number; all: number };
}

test("renewals and completions of held records are heap-only updates, beside searches for lapsed ones", async () => {
  await leaveRoom();
  const client = poolOf(url, { max: 1 });
  const alone = postgresStore({ client });
  for (let round = 0; round < 10; round++) {
    const claims = Array.from({ length: 40 }, () => heldClaim());
    await Promise.all(claims.map((claim) => alone.claim(claim)));
    await Promise.all(claims.map(({ id, token }) => alone.renew({ id, token, leaseMs: 60_000 })));
    expect(await undecided(alone)).toMatchObject({ count: 0, isComplete: true });
    await alone.purge(100);
    await Promise.all(claims.map((claim) => alone.complete(completionOf(claim))));
  }
  await client.end();
  const { hot, all } = await updatesOf(800);
  expect(all).toBe(800);
  expect(hot).toBeGreaterThan(720);
});

test("work of a guard that holds is completed by heap-only updates, also in a transaction of the application", async () => {
  await leaveRoom();
  const pool = poolOf(url, { max: 2 });
  const guard = createGuard({ store: postgresStore({ client: pool }), onLapsed: "hold", purgeEveryMs: 0 });
  for (let index = 0; index < 50; index++) {
    await guard.run({ operation: "run", key: `k-${index}` }, () => "done");
    await guard.transaction({ operation: "transact", key: `k-${index}` }, pool, async () => "done");
  }
  await guard.close();
  await pool.end();
  const { hot, all } = await updatesOf(100);
  expect(hot / all).toBeGreaterThan(0.9);
});

test("a held record that has lapsed is counted, and is never purged, whether it was looked for before or not", async () => {
  const lapsed = await claimAgo(2 * DAY_US);
  const counted = await claimAgo(2 * DAY_US);
  expect(await purgeAtOf(lapsed)).not.toBeNull();
  expect(await store.purge(1)).toEqual({ removed: 0, more: true });
  expect(await undecided()).toMatchObject({ count: 2, isComplete: true });
  expect(await purgeAll()).toBe(0);
  expect([await purgeAtOf(lapsed), await purgeAtOf(counted)]).toEqual([null, null]);
  expect(await undecided(openStore())).toMatchObject({ count: 2, isComplete: true });

  const { fence = 0 } = (await store.read(lapsed.id)) ?? {};
  const decision = claimOf(lapsed.parts.key, { takeover: fence, hold: true });
  expect(await store.claim(decision)).toMatchObject({ status: "new" });
  expect(await store.complete(completionOf(decision))).toBe(true);
  expect(await undecided()).toMatchObject({ count: 1 });
  await age(lapsed, DAY_US);
  expect(await purgeAll()).toBe(1);
  expect(await undecided()).toMatchObject({ count: 1 });
});

test("a purge between the end of a lease and the count keeps the record, and no other purge looks at it", async () => {
  const { id } = await claimAgo(0, { leaseMs: 1, retentionMs: 1 });
  // Without it, nothing but the purge itself can find the record: a search would read the whole table.
  await query(url, "DROP INDEX nevertwice_records_held");
  expect(await undecided()).toMatchObject({ count: 0, isComplete: false });
  await until(async () => (await store.purge(1)).removed === 0 && (await purgeAtOf({ id })) === null);
  expect(await store.purge(1)).toEqual({ removed: 0, more: false });
  expect(await undecided()).toMatchObject({ count: 1 });
});

test("a record that lapses among many completed ones is found, by a purge or by a count", async () => {
  const lapsed = await claimAgo(DAY_US);
  const completed = heldClaim();
  await store.claim(completed);
  await store.complete(completionOf(completed));
  const columns = `state, token, spent, hold, took_over, number, fence, lease, lease_ends_at, retention, kept_until,
    completed_at, purge_at, parts, outcome`;
  await query(
    url,
    `INSERT INTO nevertwice_records (id, claimed_at, ${columns})
      SELECT decode(md5(n::text) || md5((-n)::text), 'hex'), claimed_at - ${2 * DAY_US} + n * 1500000::bigint, ${columns}
      FROM nevertwice_records, generate_series(1, 70000) AS n WHERE id = '\\x${completed.id}'`,
  );
  const [counting, purging] = [openStore(), openStore()];
  // It is behind 57,600 others, of which a count looks at 50,000.
  expect(await undecided(counting)).toMatchObject({ count: 0, isComplete: false });
  expect(await purgeAll(purging)).toBe(0);
  expect(await purgeAtOf(lapsed)).toBeNull();
  expect(await undecided(purging)).toMatchObject({ count: 1, isComplete: true });
  expect(await undecided(counting)).toMatchObject({ count: 1, isComplete: true });
});

test("work that takes long stays out of purges, whatever renews, repeats or completes it", async () => {
  const long = await claimAgo(6 * MINUTE_US, { leaseMs: 3_600_000 });
  const young = await claimAgo(4 * MINUTE_US, { leaseMs: 3_600_000 });
  expect(await undecided()).toMatchObject({ count: 0, isComplete: true });
  expect(await purgeAtOf(young)).not.toBeNull();
  for (const again of [
    () => store.renew({ id: long.id, token: long.token, leaseMs: 1 }),
    () => store.claim({ ...long, leaseMs: 1 }),
  ]) {
    await again();
    expect(await purgeAtOf(long)).toBeNull();
    await until(async () => (await undecided()).count === 1);
  }
  // The young one was not forgotten: it lapses before a search has gone past it.
  await store.abandon({ id: young.id, token: young.token, as: "unknown" });
  expect(await undecided()).toMatchObject({ count: 2 });
  expect(await store.complete(completionOf(long))).toBe(true);
  expect(await purgeAtOf(long)).not.toBeNull();
  expect(await undecided()).toMatchObject({ count: 1 });
});

test("a young record that is still at work when others were looked at is found after it has lapsed", async () => {
  const young = await claimAgo(MINUTE_US, { leaseMs: 120_000 });
  await claimAgo(0, { leaseMs: 1 });
  await until(async () => (await undecided()).count === 1);
  await query(
    url,
    `UPDATE nevertwice_records SET lease_ends_at = claimed_at + 1 WHERE id = '\\x${young.id}'`,
  );
  expect(await undecided()).toMatchObject({ count: 2 });
});

test("a claim that was committed after later ones were looked at is found", async () => {
  await claimAgo(0, { leaseMs: 1 });
  await until(async () => (await undecided()).count === 1);
  const late = await claimAgo(14 * MINUTE_US);
  expect(await undecided()).toMatchObject({ count: 1 });
  await age(late, 2 * MINUTE_US);
  expect(await undecided()).toMatchObject({ count: 2 });
});

test("a claim that is repeated with hold is counted after it has lapsed", async () => {
  const claim = claimOf();
  await store.claim(claim);
  await undecided();
  await store.claim({ ...claim, hold: true, leaseMs: 1 });
  expect(await purgeAtOf(claim)).toBeNull();
  await until(async () => (await undecided()).count === 1);
});

test("records of the release before are counted and completed, and claims before the migration are counted as well", async () => {
  await query(url, "DROP INDEX nevertwice_records_held");
  const earlier = await claimAgo(MINUTE_US, { leaseMs: 1 });
  // As that release claims it.
  const running = heldClaim();
  await store.claim(running);
  expect([await purgeAtOf(earlier), await purgeAtOf(running)]).toEqual([null, null]);
  expect(await undecided()).toMatchObject({ count: 1, isComplete: false });
  expect(await purgeAll()).toBe(0);

  await store.migrate();
  expect(await undecided()).toMatchObject({ count: 1, isComplete: true });
  const later = await claimAgo(0, { leaseMs: 1 });
  expect(await purgeAtOf(later)).not.toBeNull();
  await until(async () => (await undecided()).count === 2);
  expect(await store.complete(completionOf(running))).toBe(true);
  expect(await purgeAtOf(running)).not.toBeNull();
  expect(await undecided()).toMatchObject({ count: 2 });
});

test("a damaged record is left as it is, and does not stop the search behind it", async () => {
  const damaged = await claimAgo(2 * MINUTE_US, { leaseMs: 1 });
  await query(url, `UPDATE nevertwice_records SET fence = -1 WHERE id = '\\x${damaged.id}'`);
  await claimAgo(MINUTE_US, { leaseMs: 1 });
  expect(await undecided()).toMatchObject({ count: 1, isComplete: true });
  expect(await purgeAtOf(damaged)).not.toBeNull();
});

test("a record that another transaction has locked does not stop the search, and is found later", async () => {
  const locked = await claimAgo(2 * MINUTE_US, { leaseMs: 1 });
  await claimAgo(MINUTE_US, { leaseMs: 1 });
  const pool = poolOf(url, { max: 1 });
  onTestFinished(() => pool.end());
  await pool.query("BEGIN");
  await pool.query("SELECT FROM nevertwice_records WHERE id = decode($1, 'hex') FOR UPDATE", [locked.id]);
  expect(await undecided()).toMatchObject({ count: 1 });
  await pool.query("COMMIT");
  expect(await undecided()).toMatchObject({ count: 2 });
});
