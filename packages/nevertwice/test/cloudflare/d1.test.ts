/** Tests the D1 store in workerd: its batches, tables, fences, damaged rows and errors. Needs the build. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { d1Store, migrationSql } from "../../src/stores/d1.ts";
import { claimOf } from "../stores/claim-request.ts";
import { NEWER_KEYS, newerKeysSql } from "../stores/sqlite/newer-keys.ts";
import { type RemoteStore, remoteStore } from "./remote-store.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

/** Every test may have a database of its own. */
const DATABASES = Array.from({ length: 16 }, (_, number) => `DB${number}`);

let runtime: Runtime;
let used = 0;
beforeAll(async () => {
  runtime = await startRuntime("store-calls.ts", [], { d1Databases: DATABASES });
});
afterAll(() => runtime.stop());

const emptyDatabase = (): RemoteStore => remoteStore(runtime, { binding: DATABASES[used++] });

let store: RemoteStore;
beforeAll(async () => {
  store = emptyDatabase();
  await store.migrate();
});
let key: string;
beforeEach(() => {
  key = randomUUID();
});

const done = { outcome: "done", retentionMs: 60_000 };

async function expectNew(claim: ReturnType<typeof claimOf>): Promise<number> {
  const answer = await store.claim(claim);
  if (answer.status !== "new") throw new Error(`the claim is ${answer.status}`);
  return answer.fence;
}

test("each step is one batch on the primary, and those that read first are two", async () => {
  const { unsafe } = await store.traffic();
  const claim = claimOf(key);
  const { id, token } = claim;
  const trips: Record<string, number> = {};
  const count = async (name: string, call: () => Promise<unknown>) => {
    await call();
    trips[name] = store.trips();
  };
  await count("first claim", () => store.claim(claim));
  await count("pending", () => store.claim(claimOf(key)));
  await count("renewal", () => store.renew({ id, token, leaseMs: 60_000 }));
  await count("step", () => store.keepStep({ id, token, name: "a", outcome: "1" }));
  await count("completion", () => store.complete({ id, token, ...done }));
  await count("replay", () => store.claim(claimOf(key)));
  await count("read", () => store.read(id));
  const other = claimOf(randomUUID());
  await store.claim(other);
  await count("abandon", () => store.abandon({ id: other.id, token: other.token, as: "released" }));
  await count("claim of a released key", () => store.claim({ ...other, token: randomUUID() }));
  expect(trips).toEqual({
    "first claim": 1,
    pending: 1,
    renewal: 1,
    step: 2,
    completion: 1,
    replay: 1,
    read: 1,
    abandon: 2,
    "claim of a released key": 2,
  });
  expect((await store.traffic()).unsafe).toBe(unsafe);
});

test("the oldest of many keys is found by its exact text", async () => {
  const many = emptyDatabase();
  await many.migrate();
  const claim = claimOf("old");
  await many.claim(claim);
  await many.sql([newerKeysSql(claim.token, "old")]);
  const page = await many.list({ namespace: "n", key: "old", limit: 5 });
  expect(page.records.map(({ id }) => id)).toEqual([claim.id]);
  expect(page).not.toHaveProperty("next");
  expect((await many.list({ namespace: "n", key: `newer-${NEWER_KEYS}`, limit: 5 })).records).toHaveLength(1);
});

test("a completed record keeps no steps", async () => {
  const claim = claimOf(key);
  const { id, token } = claim;
  await store.claim(claim);
  await store.keepStep({ id, token, name: "a", outcome: "1" });
  const steps = async () =>
    (await store.sql([`SELECT steps IS NULL AS none FROM nevertwice_records WHERE token = '${token}'`]))[0]
      ?.results;
  expect(await steps()).toEqual([{ none: 0 }]);
  await store.complete({ id, token, ...done });
  expect(await steps()).toEqual([{ none: 1 }]);
});

test("of claims in overlapping requests one is new", async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => store.claim(claimOf(key))));
  expect(answers.filter(({ status }) => status === "new")).toHaveLength(1);
  expect(answers.filter(({ status }) => status === "pending")).toHaveLength(49);
});

test("a step whose answer was lost is recognised when it is repeated", async () => {
  const claim = claimOf(key);
  const { id, token } = claim;
  const lost = async (call: () => Promise<unknown>) => {
    await store.traffic({ toLose: 1 });
    await expect(call()).rejects.toThrow(/unavailable: D1 did not answer \(Network connection lost/);
  };
  await lost(() => store.claim(claim));
  expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
  await lost(() => store.complete({ id, token, ...done }));
  expect(await store.complete({ id, token, ...done })).toBe(true);
  expect(await store.claim(claimOf(key))).toEqual({ status: "completed", outcome: "done" });
});

test("a step that fails half-way leaves nothing behind", async () => {
  const fails = "BEFORE UPDATE ON nevertwice_store BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
  const half = emptyDatabase();
  await half.migrate();
  await half.sql([`CREATE TRIGGER half_way ${fails}`]);
  await expect(half.claim(claimOf(key))).rejects.toThrow(/store-unsafe: D1 refused a statement/);
  await half.sql(["DROP TRIGGER half_way"]);
  expect(await half.claim(claimOf(key))).toMatchObject({ status: "new", number: 1 });
});

test("a record is purged when its retention has ended, however it got longer or shorter", async () => {
  const purged = emptyDatabase();
  await purged.migrate();
  const claims = ["shorter", "longer", "renewed"].map((name) =>
    claimOf(name, { leaseMs: 1, retentionMs: 3_200_000 }),
  );
  for (const claim of claims) await purged.claim(claim);
  for (const [index, retentionMs] of [32, 32_000_000].entries()) {
    const { id = "", token = "" } = claims[index] ?? {};
    await purged.complete({ id, token, outcome: "done", retentionMs });
  }
  const { id = "", token = "" } = claims[2] ?? {};
  await purged.renew({ id, token, leaseMs: 86_400_000 });
  const [rows] = await purged.sql([
    "SELECT count(*) AS late FROM nevertwice_records WHERE purge_at NOT BETWEEN kept_until AND kept_until + retention_ms / 16",
  ]);
  expect(rows?.results).toEqual([{ late: 0 }]);
  await expect.poll(() => purged.purge(10)).toEqual({ removed: 1, more: false });
});

test("fences are higher than any that the database has given, of whatever record", async () => {
  const ahead = (Date.now() + 86_400_000) * 1_000;
  const before = emptyDatabase();
  await before.migrate();
  await before.sql([`UPDATE nevertwice_store SET last_fence = ${ahead}`]);
  const claim = claimOf(key);
  expect(await before.claim(claim)).toMatchObject({ status: "new", fence: ahead + 1 });
  await before.abandon({ id: claim.id, token: claim.token, as: "unknown" });
  expect(await before.claim(claimOf(randomUUID()))).toMatchObject({ fence: ahead + 2 });
  expect(await before.claim(claimOf(key))).toMatchObject({ status: "new", fence: ahead + 3, tookOver: true });
});

test("an outcome of the largest size comes back, and a larger one is refused", async () => {
  const claim = claimOf(key);
  const { id, token } = claim;
  await store.claim(claim);
  const huge = store.complete({ id, token, ...done, outcome: "x".repeat(5_000_000) });
  await expect(huge).rejects.toThrow(/options-invalid: D1: a string is longer than D1 stores/);
  const outcome = "y".repeat(1_900_000);
  expect(await store.complete({ id, token, ...done, outcome })).toBe(true);
  expect(await store.claim(claimOf(key))).toEqual({ status: "completed", outcome });
});

describe("the tables", () => {
  test("are needed, and the error says how to get them", async () => {
    const calls = emptyDatabase();
    for (const call of [() => calls.claim(claimOf(key)), () => calls.read("id"), () => calls.purge(1)])
      await expect(call()).rejects.toThrow(
        /store-unsafe: D1: its tables are missing.*call migrate\(\) once, or apply migrationSql\(\)/,
      );
  });

  test("are created once, however many Workers create them at once", async () => {
    const many = emptyDatabase();
    await many.traffic({ delayMs: 200 });
    onTestFinished(async () => void (await many.traffic({ delayMs: 0 })));
    await Promise.all(Array.from({ length: 10 }, () => many.migrate()));
    await many.migrate();
    expect(await many.claim(claimOf(key))).toMatchObject({ status: "new" });
  });

  test("can be created by wrangler, from the same statements", async () => {
    const byHand = emptyDatabase();
    await byHand.sql(migrationSql().split(";\n").filter(Boolean));
    await byHand.migrate();
    expect(await byHand.claim(claimOf(key))).toMatchObject({ status: "new" });
  });

  test.each([
    [4, /newer version of nevertwice \(schema 4; this version knows 3\); upgrade this Worker/],
    [2, /not those of this version \(schema 2; needed is 3\): call migrate\(\) once/],
  ])("of version %i are refused, and nothing is written to them", async (version, error) => {
    const other = emptyDatabase();
    await other.migrate();
    const claim = claimOf("before");
    await other.claim(claim);
    await other.sql([`UPDATE nevertwice_store SET schema_version = ${version}`]);
    const { id, token } = claim;
    for (const call of [
      () => other.claim(claimOf(key)),
      () => other.complete({ id, token, ...done }),
      () => other.renew({ id, token, leaseMs: 1 }),
      () => other.read(id),
      () => other.diagnose(),
    ])
      await expect(call()).rejects.toThrow(error);
    const [rows] = await other.sql(["SELECT state, lease_ms FROM nevertwice_records"]);
    expect(rows?.results).toEqual([{ state: "pending", lease_ms: 60_000 }]);
  });

  test("whose last fence was damaged are refused", async () => {
    const damaged = emptyDatabase();
    await damaged.migrate();
    await damaged.sql(["UPDATE nevertwice_store SET last_fence = 'high'"]);
    await expect(damaged.claim(claimOf(key))).rejects.toThrow(/store-unsafe: last_fence .* is damaged/);
  });
});

describe("a damaged row", () => {
  test("is refused, listed as unreadable and never purged, and hides no other", async () => {
    const damaged = emptyDatabase();
    await damaged.migrate();
    const [bad, good] = [claimOf("bad", { leaseMs: 1, retentionMs: 1 }), claimOf("good")];
    await damaged.claim(bad);
    await damaged.claim(good);
    await damaged.sql([`UPDATE nevertwice_records SET number = 'many' WHERE token = '${bad.token}'`]);
    await expect(damaged.read(bad.id)).rejects.toThrow(/store-unsafe/);
    await expect(damaged.claim(claimOf("bad"))).rejects.toThrow(/store-unsafe/);
    const page = await damaged.list({ namespace: "n", limit: 10 });
    expect(page.records.map(({ id }) => id)).toEqual([good.id]);
    expect(page.unreadable?.map(({ id }) => id)).toEqual([bad.id]);
    expect(await damaged.purge(10)).toEqual({ removed: 0, more: false });
  });
});

test("a list has all records once, page by page", async () => {
  const listed = emptyDatabase();
  await listed.migrate();
  const claims = Array.from({ length: 25 }, (_, number) => claimOf(`listed-${number}`));
  for (const claim of claims) await listed.claim(claim);
  const ids: string[] = [];
  let after: string | undefined;
  do {
    const page = await listed.list({ namespace: "n", limit: 7, ...(after && { after }) });
    ids.push(...page.records.map(({ id }) => id));
    after = page.next;
  } while (after !== undefined);
  expect(ids.sort()).toEqual(claims.map(({ id }) => id).sort());
});

test("a record that is forgotten by several at once is forgotten once", async () => {
  const claim = claimOf(key);
  const fence = await expectNew(claim);
  await store.abandon({ id: claim.id, token: claim.token, as: "released" });
  await store.traffic({ delayMs: 100 });
  onTestFinished(async () => void (await store.traffic({ delayMs: 0 })));
  const answers = await Promise.all(Array.from({ length: 10 }, () => store.forget({ id: claim.id, fence })));
  expect(answers.filter(Boolean)).toHaveLength(1);
});

test("a takeover by one of two Workers that decide at once is refused to the other", async () => {
  const claim = claimOf(key, { hold: true });
  const fence = await expectNew(claim);
  await store.abandon({ id: claim.id, token: claim.token, as: "unknown" });
  const both = await Promise.all([1, 2].map(() => store.claim(claimOf(key, { takeover: fence }))));
  expect(both.filter(({ status }) => status === "new")).toHaveLength(1);
});

describe("what cannot work is refused with what to do", () => {
  const notBound = /options-invalid: d1Store needs the binding of a D1 database.*d1_databases/;
  /** A database whose batches fail. */
  const failing = (message: string) => {
    const statement = { bind: () => statement };
    return { prepare: () => statement, batch: () => Promise.reject(new Error(message)) };
  };

  test("a binding that is missing", async () => {
    expect(() => d1Store(undefined as never)).toThrow(notBound);
    await expect(d1Store(() => undefined as never).read("id")).rejects.toThrow(notBound);
  });

  test("a store that was closed", async () => {
    const closed = d1Store(failing("never"));
    await closed.close();
    await expect(closed.read("id")).rejects.toThrow("unavailable: the D1 store is closed.");
  });

  test.each([
    ["D1_ERROR: D1 DB is overloaded. Requests queued for too long.", "unavailable"],
    ["D1_ERROR: Network connection lost.", "unavailable"],
    ["D1_ERROR: Exceeded maximum DB size", "store-full"],
    ["D1_ERROR: database disk image is malformed: SQLITE_CORRUPT", "store-unsafe"],
    ['D1_ERROR: near "SELEC": syntax error at offset 0: SQLITE_ERROR', "store-unsafe"],
  ])("%s is %s", async (message, code) => {
    await expect(d1Store(failing(message)).read("id")).rejects.toMatchObject({ code });
  });
});

test("the doctor says what Cloudflare documents, and what it could not check", async () => {
  const said = await store.diagnose();
  expect(said).toContain("Cloudflare D1");
  expect(said).toMatch(/failover\s+yes\s+as Cloudflare documents it/);
  expect(said).toContain("nothing here can read or check that setting");
  expect(said).toContain("fences are as good as the clock of the database (a restore by Time Travel is one)");
});
