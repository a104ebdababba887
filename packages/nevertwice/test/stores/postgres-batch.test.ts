/** Tests group commit on Postgres: what goes together, what must not, and what a caller sees of its neighbours. */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest";
import type { ClaimAnswer } from "../../src/core/store.ts";
import { type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

const { postgres: serverUrl } = inject("services");

let url: string;
let proxy: FaultProxy;
let pool: pg.Pool;
let store: PostgresStore;
/** Represents another process. */
let otherPool: pg.Pool;
let other: PostgresStore;

beforeAll(async () => {
  if (typeof serverUrl !== "string") return;
  url = await createDatabase(serverUrl);
  proxy = await startProxy(url);
  pool = poolOf(proxy.url);
  otherPool = poolOf(url);
  store = postgresStore({ client: pool });
  other = postgresStore({ client: otherPool });
  await store.migrate();
  await store.claim(claimOf());
});

afterAll(async () => {
  await Promise.all([pool?.end(), otherPool?.end()]);
  await proxy?.stop();
});

beforeEach(({ skip }) => {
  if (typeof serverUrl !== "string") skip(serverUrl.skipped);
});

function statuses(answers: readonly ClaimAnswer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const keysOf = (count: number) => Array.from({ length: count }, () => randomUUID());

test("a first call takes two round trips, and a replay one", async () => {
  const claim = claimOf();
  const first = proxy.countRequests("postgres");
  expect(await store.claim(claim)).toMatchObject({ status: "new" });
  expect(await store.complete(completionOf(claim))).toBe(true);
  expect(first.count).toBe(2);
  const replay = proxy.countRequests("postgres");
  expect(await store.claim(claimOf(claim.parts.key))).toMatchObject({ status: "completed", outcome: "done" });
  expect(replay.count).toBe(1);
});

test("calls that arrive while a write is in flight share the next one", async () => {
  const claims = keysOf(100).map((key) => claimOf(key));
  const messages = proxy.countRequests("postgres");
  const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
  expect(statuses(answers)).toEqual({ new: 100 });
  expect(messages.count).toBeLessThanOrEqual(4);
});

test("ten thousand simultaneous claims of one key have one owner, and take few statements", async () => {
  const claims = Array.from({ length: 10_000 }, () => claimOf("one key of ten thousand"));
  const messages = proxy.countRequests("postgres");
  const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
  expect(statuses(answers)).toEqual({ new: 1, pending: 9_999 });
  expect(messages.count).toBeLessThan(500);
});

test("500 callers of one key send one claim: the first gets it, and later its outcome is fetched once for all", async () => {
  const claims = keysOf(500).map(() => claimOf("one key of 500"));
  const claimAll = () => Promise.all(claims.map((claim) => store.claim(claim)));
  const sent = proxy.countRequests("postgres");
  const [first, ...others] = await claimAll();
  expect(first).toMatchObject({ status: "new", number: 1 });
  for (const answer of others)
    expect(answer).toEqual({ status: "pending", leaseLeftMs: 60_000, elapsedMs: 0 });
  expect(sent.count).toBe(1);

  const [owned] = claims as [ReturnType<typeof claimOf>];
  const outcome = "x".repeat(100_000);
  expect(await store.complete(completionOf(owned, outcome))).toBe(true);
  const replays = proxy.countRequests("postgres");
  for (const answer of await claimAll()) expect(answer).toEqual({ status: "completed", outcome });
  expect(replays.count).toBe(1);
});

test("an owner that asks again among other callers of its key is recognised", async () => {
  const owned = claimOf("an owner that asks again");
  const granted = await store.claim(owned);
  const stranger = () => claimOf("an owner that asks again");
  const answers = await Promise.all([stranger(), owned, stranger()].map((claim) => store.claim(claim)));
  expect(answers).toMatchObject([{ status: "pending" }, granted, { status: "pending" }]);
});

test("a caller of a shared claim that cancels does not cancel it for the others", async () => {
  const leaves = new AbortController();
  const claims = [claimOf("left", { signal: leaves.signal }), claimOf("left"), claimOf("left")];
  // All connections are taken, so that the claim waits in the pool while its first caller leaves.
  const blockers = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()));
  const answers = Promise.allSettled(claims.map((claim) => store.claim(claim)));
  await new Promise((resolve) => setTimeout(resolve, 50));
  leaves.abort();
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (const blocker of blockers) blocker.release();
  const [, second, third] = await answers;
  expect(second).toMatchObject({ status: "fulfilled", value: { status: "pending" } });
  expect(third).toMatchObject({ status: "fulfilled", value: { status: "pending" } });
});

test("of several claims of one key in one statement, the caller that gets the claim is the owner in the record", async () => {
  for (let round = 0; round < 20; round++) {
    // First with a new key, then with a released one.
    for (let life = 0; life < 2; life++) {
      const claims = Array.from({ length: 30 }, () => claimOf(`shared ${round}`));
      const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
      const { id, token } = claims[answers.findIndex(({ status }) => status === "new")] ?? claimOf();
      expect((await store.read(id))?.token).toBe(token);
      await store.abandon({ id, token, as: "released" });
    }
  }
});

test("a thousand replays of a large outcome transfer it once for each statement", async () => {
  const claim = claimOf();
  const outcome = "x".repeat(100_000);
  await store.claim(claim);
  await store.complete(completionOf(claim, outcome));
  const before = proxy.bytesToClient;
  const answers = await Promise.all(
    Array.from({ length: 1_000 }, () => store.claim(claimOf(claim.parts.key))),
  );
  expect(answers.every((answer) => answer.status === "completed" && answer.outcome === outcome)).toBe(true);
  expect(proxy.bytesToClient - before).toBeLessThan(5_000_000);
});

test("each of several claims of one key in one statement is decided by its own fingerprint and token", async () => {
  const key = randomUUID();
  const owner = claimOf(key, { fingerprint: "1:aa" });
  await store.claim(owner);
  const [again, conflict, pending] = await Promise.all([
    store.claim(owner),
    store.claim(claimOf(key, { fingerprint: "1:bb" })),
    store.claim(claimOf(key)),
  ]);
  expect([again.status, conflict.status, pending.status]).toEqual(["new", "conflict", "pending"]);
  await store.complete(completionOf(owner));
  const answers = await Promise.all([
    store.claim(claimOf(key, { fingerprint: "1:bb" })),
    store.claim(claimOf(key, { fingerprint: "1:aa" })),
    store.claim(claimOf(key)),
  ]);
  expect(answers).toMatchObject([
    { status: "conflict", state: "completed" },
    { status: "completed", outcome: "done" },
    { status: "completed", outcome: "done" },
  ]);
});

test("of simultaneous completions by one owner, the first counts and all return true", async () => {
  const claim = claimOf();
  await store.claim(claim);
  const outcomes = ["first", "second", "third"];
  const answers = await Promise.all(outcomes.map((outcome) => store.complete(completionOf(claim, outcome))));
  expect(answers).toEqual([true, true, true]);
  expect(await store.read(claim.id)).toMatchObject({ state: "completed", outcome: "first" });
});

test("an outcome that Postgres refuses fails only its own call, and the other calls complete", async () => {
  const claims = keysOf(20).map((key) => claimOf(key));
  await Promise.all(claims.map((claim) => store.claim(claim)));
  const answers = await Promise.allSettled(
    claims.map((claim, index) =>
      store.complete(completionOf(claim, index === 7 ? "a\u0000b" : `outcome ${index}`)),
    ),
  );
  expect(answers.map(({ status }) => status === "fulfilled")).toEqual(claims.map((_, index) => index !== 7));
  expect(answers[7]).toMatchObject({ reason: { code: "store-unsafe", cause: { code: "22021" } } });
  const records = await Promise.all(claims.map(({ id }) => store.read(id)));
  expect(records.map((record) => record?.outcome)).toEqual(
    claims.map((_, index) => (index === 7 ? undefined : `outcome ${index}`)),
  );
});

test("a fingerprint that the server refuses fails only its own call, and the other calls get their claims", async () => {
  const claims = [
    ...keysOf(10).map((key) => claimOf(key)),
    claimOf("refused", { fingerprint: "1:a\u0000b" }),
  ];
  const answers = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
  expect(answers.slice(0, 10).every(({ status }) => status === "fulfilled")).toBe(true);
  expect(answers[10]).toMatchObject({
    status: "rejected",
    reason: { code: "store-unsafe", cause: { code: "22021" } },
  });
});

test("an id that is no digest names one record, however long it is and whatever it contains", async () => {
  const long = Array.from({ length: 400 }, () => randomUUID()).join("");
  for (const id of [long, "", "x", "\u001f", "F".repeat(64), "g".repeat(64)]) {
    const claim = claimOf(randomUUID(), { id });
    expect(await store.claim(claim)).toMatchObject({ status: "new" });
    expect(await store.claim({ ...claim, token: randomUUID() })).toMatchObject({ status: "pending" });
    expect(await store.complete(completionOf(claim))).toBe(true);
    expect(await store.read(id)).toMatchObject({ state: "completed", parts: claim.parts });
  }
});

test("outcomes of many megabytes are sent in several statements, and all are stored", async () => {
  const claims = keysOf(12).map((key) => claimOf(key));
  await Promise.all(claims.map((claim) => store.claim(claim)));
  const outcomeOf = (index: number) => `${index}`.repeat(1_000_000);
  const answers = await Promise.all(
    claims.map((claim, index) => store.complete(completionOf(claim, outcomeOf(index)))),
  );
  expect(answers.every(Boolean)).toBe(true);
  expect((await store.read(claims[11]?.id ?? ""))?.outcome).toBe(outcomeOf(11));
});

test("two clients that claim the same keys in opposite order get one owner for each key", async () => {
  for (let round = 0; round < 5; round++) {
    const keys = keysOf(300);
    const [ours, theirs] = await Promise.all([
      Promise.all(keys.map((key) => store.claim(claimOf(key)))),
      Promise.all(keys.toReversed().map((key) => other.claim(claimOf(key)))),
    ]);
    theirs.reverse();
    for (const [index, answer] of ours.entries())
      expect([answer.status, theirs[index]?.status].sort()).toEqual(["new", "pending"]);
  }
});

test("two clients that settle and take over the same keys in opposite order never deadlock", async () => {
  for (let round = 0; round < 5; round++) {
    const claims = keysOf(200).map((key) => claimOf(key, { leaseMs: 1 }));
    await Promise.all(claims.map((claim) => store.claim(claim)));
    // Until the last lease has ended: before that, a rival gets `pending`.
    await new Promise((resolve) => setTimeout(resolve, 5));
    const rivals = claims.map(({ parts }) => claimOf(parts.key));
    const [completed, taken] = await Promise.all([
      Promise.all(claims.map((claim) => store.complete(completionOf(claim)))),
      Promise.all(rivals.toReversed().map((rival) => other.claim(rival))),
    ]);
    taken.reverse();
    // Either the owner was in time or its successor has the key; never both and never neither.
    for (const [index, isDone] of completed.entries())
      expect(taken[index]?.status).toBe(isDone ? "completed" : "new");
  }
});

test("a batch whose COMMIT is not answered is repeated call by call, and every claim is recognised", async () => {
  const claims = keysOf(50).map((key) => claimOf(key));
  proxy.cutReply(1, (chunk) => chunk.includes(claims[0]?.id ?? ""));
  const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
  expect(statuses(answers)).toEqual({ new: 50 });
  expect(answers.every((answer) => answer.status === "new" && answer.number === 1)).toBe(true);
  proxy.cutReply(1, (chunk) => chunk.includes(claims[0]?.id ?? ""));
  expect((await Promise.all(claims.map((claim) => store.complete(completionOf(claim))))).every(Boolean)).toBe(
    true,
  );
});

test("a key that another transaction has locked delays no other key", async () => {
  const claims = keysOf(20).map((key) => claimOf(key));
  await Promise.all(claims.map((claim) => store.claim(claim)));
  const blocker = await otherPool.connect();
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM nevertwice_records WHERE id = decode($1, 'hex') FOR UPDATE", [
    claims[3]?.id,
  ]);
  const done: number[] = [];
  const messages = proxy.countRequests("postgres");
  const completing = claims.map(async (claim, index) => {
    const answer = await store.complete(completionOf(claim));
    done.push(index);
    return answer;
  });
  await until(() => done.length === 19);
  expect(done).not.toContain(3);
  // The batch skipped it and continued: nothing was repeated call by call.
  expect(messages.count).toBeLessThan(10);
  await blocker.query("COMMIT");
  blocker.release();
  expect((await Promise.all(completing)).every(Boolean)).toBe(true);
});

test("the store waits again for a key that is locked longer than one lock timeout", async () => {
  const claim = claimOf();
  await store.claim(claim);
  const blocker = await otherPool.connect();
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM nevertwice_records WHERE id = decode($1, 'hex') FOR UPDATE", [claim.id]);
  const completing = store.complete(completionOf(claim));
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await blocker.query("COMMIT");
  blocker.release();
  expect(await completing).toBe(true);
});

test("a claim that waited for its row uses the time after the wait", async () => {
  const before = claimOf();
  await store.claim(before);
  await store.abandon({ id: before.id, token: before.token, as: "released" });
  const blocker = await otherPool.connect();
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM nevertwice_records WHERE id = decode($1, 'hex') FOR UPDATE", [before.id]);
  const claiming = store.claim(claimOf(before.parts.key));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const { rows } = await blocker.query<{ now: number }>(
    "SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now",
  );
  await blocker.query("COMMIT");
  blocker.release();
  expect(await claiming).toMatchObject({ status: "new", number: 2 });
  expect((await store.read(before.id))?.claimedAt).toBeGreaterThanOrEqual(Math.floor(rows[0]?.now ?? 0));
});

test("a deadlock and a serialization failure are repeated, and not reported", async () => {
  const apart = await createDatabase(serverUrl as string);
  const client = poolOf(apart);
  const unlucky = postgresStore({ client });
  await unlucky.migrate();
  await query(
    apart,
    `CREATE SEQUENCE mishaps;
    CREATE FUNCTION mishap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      CASE nextval('mishaps')
        WHEN 1 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
        WHEN 2 THEN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
        ELSE RETURN NULL;
      END CASE;
    END $$;
    CREATE TRIGGER mishap AFTER INSERT ON nevertwice_records FOR EACH STATEMENT EXECUTE FUNCTION mishap()`,
  );
  const answers = await Promise.all([claimOf(), claimOf(), claimOf()].map((claim) => unlucky.claim(claim)));
  expect(statuses(answers)).toEqual({ new: 3 });
  await client.end();
});

test("a key that stays locked is unavailable, and occupies no connection", async () => {
  const claim = claimOf();
  await store.claim(claim);
  const blocker = await otherPool.connect();
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM nevertwice_records WHERE id = decode($1, 'hex') FOR UPDATE", [claim.id]);
  await expect(store.complete(completionOf(claim))).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("another open transaction holds a lock"),
  });
  // A claim that writes nothing does not wait at all.
  expect(await store.claim(claimOf(claim.parts.key))).toMatchObject({ status: "pending" });
  await blocker.query("ROLLBACK");
  blocker.release();
  const waiting = await query(
    url,
    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
  );
  expect(waiting).toEqual([]);
  expect(await store.complete(completionOf(claim))).toBe(true);
});

test("renewals do not queue behind ten thousand claims, so no lease lapses", async () => {
  const owners = keysOf(20).map((key) => claimOf(key, { leaseMs: 1_500 }));
  await Promise.all(owners.map((owner) => store.claim(owner)));
  let isOver = false;
  const renewing = owners.map(async ({ id, token }) => {
    const answers: boolean[] = [];
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      answers.push(await store.renew({ id, token, leaseMs: 1_500 }));
    }
    return answers;
  });
  const claims = await Promise.all(keysOf(10_000).map((key) => store.claim(claimOf(key))));
  expect(statuses(claims)).toEqual({ new: 10_000 });
  isOver = true;
  expect((await Promise.all(renewing)).flat().every(Boolean)).toBe(true);
  const states = await Promise.all(owners.map(({ id }) => store.read(id)));
  expect(states.every((record) => record?.state === "pending" && record.number === 1)).toBe(true);
});

test("a replay and a refused claim write nothing", async () => {
  const [done, busy] = [claimOf(), claimOf()];
  await Promise.all([store.claim(done), store.claim(busy)]);
  await store.complete(completionOf(done));
  const versions = `SELECT xmin::text, ctid::text, xmax::text FROM nevertwice_records WHERE id IN ('\\x${done.id}', '\\x${busy.id}') ORDER BY id`;
  const before = await query(url, versions);
  await Promise.all(
    Array.from({ length: 50 }, (_, index) => store.claim(claimOf((index % 2 ? done : busy).parts.key))),
  );
  expect(await query(url, versions)).toEqual(before);
});

test("a completion updates no index if its page has room", async () => {
  const apart = await createDatabase(serverUrl as string);
  const client = poolOf(apart, { max: 1 });
  const alone = postgresStore({ client });
  await alone.migrate();
  for (let i = 0; i < 100; i++) {
    const claim = claimOf();
    await alone.claim(claim);
    await alone.complete(completionOf(claim));
  }
  // A session reports its statistics when it ends.
  await client.end();
  const counts =
    "SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'nevertwice_records'";
  await until(async () => Number((await query(apart, counts))[0]?.all) >= 100);
  expect(Number((await query(apart, counts))[0]?.hot)).toBeGreaterThan(90);
});

test("purge removes a record by its own deadline, whatever the index entry says", async () => {
  const claim = claimOf();
  await store.claim(claim);
  await query(url, `UPDATE nevertwice_records SET purge_at = 1 WHERE id = '\\x${claim.id}'`);
  await store.purge(1_000);
  expect(await store.read(claim.id)).toMatchObject({ state: "pending" });
});
