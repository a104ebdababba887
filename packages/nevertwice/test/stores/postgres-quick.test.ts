/** Tests the small statements that a claim and a completion on Postgres are tried with: what they answer, and what they leave open. */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest";
import { type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { claimOf, completionOf, createDatabase, poolOf } from "./postgres/database.ts";

const { postgres: serverUrl } = inject("services");

let proxy: FaultProxy;
let pool: pg.Pool;
let store: PostgresStore;

beforeAll(async () => {
  if (typeof serverUrl !== "string") return;
  proxy = await startProxy(await createDatabase(serverUrl));
  pool = poolOf(proxy.url);
  store = postgresStore({ client: pool });
  await store.migrate();
  await store.claim(claimOf());
});

afterAll(async () => {
  await pool?.end();
  await proxy?.stop();
});

beforeEach(({ skip }) => {
  if (typeof serverUrl !== "string") skip(serverUrl.skipped);
});

const claimAll = (claims: readonly ReturnType<typeof claimOf>[]) =>
  Promise.all(claims.map((claim) => store.claim(claim)));

/** Between two texts, the separator of the small statements. */
const SPLIT = "a\x1fb";

test("a text with the separator of the small statements stays one text, alone and beside others", async () => {
  for (const count of [1, 3]) {
    const claims = Array.from({ length: count }, () => claimOf(SPLIT + randomUUID(), { fingerprint: SPLIT }));
    const answers = await claimAll(claims);
    expect(answers.map(({ status }) => status)).toEqual(claims.map(() => "new"));
    const outcomes = claims.map(({ token }) => SPLIT + token);
    await Promise.all(claims.map((claim, i) => store.complete(completionOf(claim, outcomes[i]))));
    for (const [i, { id }] of claims.entries())
      expect(await store.read(id)).toMatchObject({ fingerprint: SPLIT, outcome: outcomes[i] });
  }
});

test("an id or a token with the separator takes no other record", async () => {
  const [one, two] = [claimOf(), claimOf()];
  await claimAll([one, two]);
  const both = { ...completionOf(one), id: `${one.id}\x1f${two.id}`, token: `${one.token}\x1f${two.token}` };
  expect(await Promise.all([store.complete(both), store.complete(completionOf(claimOf()))])).toEqual([
    false,
    false,
  ]);
  expect(await store.read(one.id)).toMatchObject({ state: "pending" });
  expect(await store.read(two.id)).toMatchObject({ state: "pending" });
});

test("claims with and without a fingerprint keep what each of them has, and an empty one is not a missing one", async () => {
  const claims = ["1:aa", undefined, "", "1:bb"].map((fingerprint) =>
    claimOf(randomUUID(), fingerprint === undefined ? {} : { fingerprint }),
  );
  await claimAll(claims);
  const records = await Promise.all(claims.map(({ id }) => store.read(id)));
  expect(records.map((record) => record?.fingerprint)).toEqual(["1:aa", undefined, "", "1:bb"]);
});

test("empty and large outcomes, completed together, each stay with their key", async () => {
  const claims = Array.from({ length: 5 }, () => claimOf());
  await claimAll(claims);
  const outcomes = ["", '{"quote":"\\"","slash":"\\\\"}', "ü€😀", "x".repeat(300_000), "NULL"];
  const completions = claims.map((claim, i) => store.complete(completionOf(claim, outcomes[i])));
  expect(await Promise.all(completions)).toEqual(claims.map(() => true));
  const replays = await claimAll(claims.map(({ parts }) => claimOf(parts.key)));
  expect(replays).toEqual(outcomes.map((outcome) => ({ status: "completed", outcome })));
});

test("of completions that go together, each is answered for its own record", async () => {
  const [done, lost, mine] = [claimOf(), claimOf(), claimOf()];
  await claimAll([done, lost, mine]);
  await store.complete(completionOf(done));
  const messages = proxy.countRequests("postgres");
  const answers = await Promise.all([
    store.complete(completionOf(done)),
    store.complete({ ...completionOf(lost), token: randomUUID() }),
    store.complete(completionOf(mine)),
    store.complete(completionOf(claimOf())),
  ]);
  expect(answers).toEqual([true, false, true, false]);
  // One for the small statement, and one for the three calls that it left open.
  expect(messages.count).toBe(2);
});

test("a completion after the retention of its record has ended is refused, alone and beside others", async () => {
  const claims = Array.from({ length: 3 }, () => claimOf(randomUUID(), { leaseMs: 1, retentionMs: 1 }));
  await claimAll(claims);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const [first, ...others] = claims.map((claim) => completionOf(claim));
  if (first === undefined) throw new Error("there are three claims");
  expect(await store.complete(first)).toBe(false);
  expect(await Promise.all(others.map((completion) => store.complete(completion)))).toEqual([false, false]);
});

test("a claim that repeats the owner's is answered as new beside another claim of its key", async () => {
  const key = randomUUID();
  const owner = claimOf(key);
  await store.claim(owner);
  for (const claims of [
    [owner, claimOf(key)],
    [claimOf(key), owner],
  ]) {
    const answers = await claimAll(claims);
    expect(answers.map(({ status }) => status)).toEqual(
      claims.map((claim) => (claim === owner ? "new" : "pending")),
    );
  }
});

test("of several claims of a completed key, one with another fingerprint conflicts", async () => {
  const claim = claimOf(randomUUID(), { fingerprint: "1:aa" });
  await store.claim(claim);
  await store.complete(completionOf(claim));
  const answers = await claimAll(
    ["1:aa", "1:bb", "1:aa"].map((fingerprint) => claimOf(claim.parts.key, { fingerprint })),
  );
  expect(answers.map(({ status }) => status)).toEqual(["completed", "conflict", "completed"]);
});
