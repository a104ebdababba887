/** Tests the figures of 24 hours over all servers: how they are written, read, limited and shown. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGuard, type Store } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { openStore } from "nevertwice/stores/open";
import { manualClock } from "nevertwice/testing";
import { expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { clientOf, newTable } from "../../nevertwice/test/stores/dynamodb/tables.ts";
import { createFiguresReader } from "../src/figures/figures-reader.ts";
import { createFiguresGuard, FIGURES_NAMESPACE } from "../src/figures/figures-row.ts";
import { createFiguresWriter } from "../src/figures/figures-writer.ts";
import { COUNTED, countedAs, createTally } from "../src/figures/tally.ts";
import { sceneOf } from "./calling.ts";

const START = Date.UTC(2026, 0, 2, 10, 0, 0);

function guardOn(store: Store) {
  const guard = createFiguresGuard(store, 0);
  onTestFinished(async () => {
    await guard.close();
  });
  return guard;
}

/** One first run, unless other numbers are given. */
function line(operation: string, counts: Partial<Record<(typeof COUNTED)[number], number>> = { first: 1 }) {
  return { namespace: "shop", door: "claims", operation, counts: COUNTED.map((name) => counts[name] ?? 0) };
}

async function firstRuns(store: Store, now: () => number): Promise<number> {
  const { hours, isComplete } = await createFiguresReader(guardOn(store), now).read();
  expect(isComplete).toBe(true);
  return hours.flatMap(({ lines }) => lines).reduce((sum, { counts }) => sum + (counts[0] ?? 0), 0);
}

async function rowsOf(store: Store): Promise<readonly string[]> {
  const { records } = await createGuard({ store, namespace: FIGURES_NAMESPACE, purgeEveryMs: 0 }).list({});
  return records.map(({ operation, key, state }) => `${operation} ${key} ${state}`).sort();
}

test("a server has one row a minute, and none if nothing was counted", async () => {
  const store = memoryStore();
  let now = START;
  const writer = createFiguresWriter(guardOn(store), { now: () => now, lane: 5 });
  await writer.flush();
  expect(await rowsOf(store)).toEqual([]);
  const [minute, day] = [START / 60_000, Math.floor(START / 86_400_000)];
  for (let turn = 0; turn < 12; turn++) {
    writer.count(line("sell"));
    await writer.flush();
    now += 10_000;
  }
  expect(await rowsOf(store)).toEqual([
    `lane ${day}-5 completed`,
    `minute ${minute}-5 completed`,
    `minute ${minute + 1}-5 pending`,
  ]);
  expect(await firstRuns(store, () => now)).toBe(12);
  await writer.end();
  expect(await firstRuns(store, () => now)).toBe(12);
});

test("servers that begin in the same lane have rows of their own", async () => {
  const store = memoryStore();
  const writers = [1, 2, 3].map(() => createFiguresWriter(guardOn(store), { now: () => START, lane: 31 }));
  for (const writer of writers) {
    writer.count(line("sell"));
    await writer.flush();
  }
  const minute = START / 60_000;
  expect((await rowsOf(store)).filter((row) => row.startsWith("minute"))).toEqual([
    `minute ${minute}-0 pending`,
    `minute ${minute}-1 pending`,
    `minute ${minute}-31 pending`,
  ]);
  expect(await firstRuns(store, () => START)).toBe(3);
});

test("what a server had written when it was killed is counted, also after its row has lapsed", async () => {
  const clock = manualClock(START);
  const store = memoryStore({ clock });
  const writer = createFiguresWriter(guardOn(store), { now: () => clock.now() });
  writer.count(line("sell"));
  await writer.flush();
  writer.count(line("sell"));
  await writer.flush();
  clock.advance(20 * 60_000);
  expect(await firstRuns(store, () => clock.now())).toBe(2);
});

test("what could not be written while the store was down is written later", async () => {
  let isDown = true;
  const memory = memoryStore();
  const claim: Store["claim"] = (asked) => (isDown ? Promise.reject(new Error("down")) : memory.claim(asked));
  const store: Store = { ...memory, claim };
  let now = START;
  const writer = createFiguresWriter(
    createGuard({ store, namespace: FIGURES_NAMESPACE, storeTimeoutMs: 20, purgeEveryMs: 0 }),
    { now: () => now },
  );
  writer.count(line("sell"));
  await writer.flush();
  expect(await rowsOf(memory)).toEqual([]);
  isDown = false;
  now += 60_000;
  writer.count(line("sell"));
  await writer.flush();
  expect(await firstRuns(memory, () => now)).toBe(2);
  await writer.end();
});

test("the day ends after 24 whole hours", async () => {
  const store = memoryStore();
  let now = START;
  const writer = createFiguresWriter(guardOn(store), { now: () => now });
  writer.count(line("sell"));
  await writer.flush();
  now += 86_400_000 + 3_599_000;
  expect(await firstRuns(store, () => now)).toBe(1);
  now += 1_000;
  expect(await firstRuns(store, () => now)).toBe(0);
  await writer.end();
});

test("a reader reads settled rows once", async () => {
  const memory = memoryStore();
  let reads = 0;
  const read: Store["read"] = (...asked) => {
    reads++;
    return memory.read(...asked);
  };
  let now = START;
  const writer = createFiguresWriter(guardOn(memory), { now: () => now, lane: 0 });
  for (let minute = 0; minute < 100; minute++) {
    writer.count(line("sell"));
    await writer.flush();
    now += 60_000;
  }
  await writer.end();
  const reader = createFiguresReader(guardOn({ ...memory, read }), () => now);
  const total = async () =>
    (await reader.read()).hours
      .flatMap(({ lines }) => lines)
      .reduce((sum, { counts }) => sum + (counts[0] ?? 0), 0);
  expect(await total()).toBe(100);
  // 32 lanes on each of two days, and 101 minutes.
  expect(reads).toBe(165);
  now += 5_000;
  expect(await total()).toBe(100);
  // The lanes again, and the current minute, which has no row yet.
  expect(reads).toBe(165 + 65);
});

test("operations, namespaces and the length of a name have limits, and the rest is counted as other", () => {
  const tally = createTally(200);
  for (let index = 0; index < 1_000; index++) {
    tally.add(line(`operation-${index}`));
    tally.add({ ...line(`operation-${index}`), namespace: "bank" });
    tally.add({ ...line("sell"), namespace: `namespace-${index}` });
  }
  tally.add(line("x".repeat(129)));
  const lines = tally.lines();
  expect(lines.filter(({ operation }) => operation !== "other")).toHaveLength(200);
  expect(new Set(lines.map(({ namespace }) => namespace)).size).toBe(51);
  expect(lines.reduce((sum, { counts }) => sum + (counts[0] ?? 0), 0)).toBe(3_001);
});

test("a lapse, a wait and a quota stop no duplicate, and a refusal of done work is no replay", () => {
  const about = { operation: "sell", keyHash: "k" };
  expect(countedAs({ ...about, kind: "replayed", refused: true })).toBe("alreadyDone");
  expect(countedAs({ ...about, kind: "replayed", refused: false })).toBe("replay");
  for (const kind of ["replay-not-kept", "replay-unreadable", "replay-expired"] as const)
    expect(countedAs({ ...about, kind })).toBe("alreadyDone");
  expect(countedAs({ ...about, kind: "waited", waitedMs: 1 })).toBeUndefined();
  expect(
    countedAs({ ...about, operation: "nevertwice:quota", kind: "conflict", state: "pending" }),
  ).toBeUndefined();
});

const OPENED: Readonly<Record<string, (context: TestContext) => Promise<string>>> = {
  memory: async () => "memory:",
  sqlite: async () => sqliteUrl(),
  redis: async (context) => sharedUrl(context, "redis"),
  postgres: async (context) => sharedUrl(context, "postgres"),
  mysql: async (context) => sharedUrl(context, "mysql"),
  etcd: async (context) => sharedUrl(context, "etcd"),
  async dynamodb(context) {
    const endpoint = sharedUrl(context, "dynamodb");
    vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
    const table = await newTable(clientOf(endpoint));
    return `dynamodb://eu-west-1/${table}?endpoint=${encodeURIComponent(endpoint)}`;
  },
};

function sqliteUrl(): string {
  return `sqlite:${join(mkdtempSync(join(tmpdir(), "figures-")), "nevertwice.db")}`;
}

for (const [name, toUrl] of Object.entries(OPENED))
  test(`figures are written and read on ${name}`, async (context) => {
    const store = await openStore(await toUrl(context));
    onTestFinished(() => store.close());
    // Other tests use the same servers, whose figures are in the same namespace.
    const own = `own-${Math.random()}`;
    const writer = createFiguresWriter(guardOn(store));
    writer.count({ ...line("sell", { first: 2, replay: 1 }), namespace: own });
    await writer.flush();
    const reader = createFiguresReader(guardOn(store));
    const seen = async () =>
      (await reader.read()).hours
        .flatMap(({ lines }) => lines)
        .filter(({ namespace }) => namespace === own)
        .map(({ operation, counts }) => [operation, ...counts.slice(0, 2)]);
    await expect.poll(seen).toEqual([["sell", 2, 1]]);
    await writer.end();
    await expect.poll(seen).toEqual([["sell", 2, 1]]);
  });

test("GET /v1/figures has the calls to all servers by operation and door, and duplicates stopped are the sum of their parts", async () => {
  const store = sqliteUrl();
  const [one, other] = [await sceneOf({ store }), await sceneOf({ store })];
  for (const scene of [one, other]) {
    await scene.call("POST /v1/claims", { body: { operation: "sell", key: "1" } });
    await scene.call("POST /v1/events", { body: { source: "shop", id: "7" } });
  }
  await one.server.context.figures.flush();
  await other.server.context.figures.flush();
  const { body } = await one.call("GET /v1/figures");
  const shown = body.operations.map(
    ({ operation, door, first, replay, alreadyDone, pending, stopped }: Record<string, unknown>) =>
      [door, operation, first, replay, alreadyDone, pending, stopped].join(" "),
  );
  expect(body.isComplete).toBe(true);
  expect(shown.toSorted()).toEqual(["claims sell 1 0 0 1 1", "events event 1 0 1 0 1"]);
  expect(body.total).toMatchObject({
    first: 2,
    replay: 0,
    alreadyDone: 1,
    pending: 1,
    conflict: 0,
    stopped: 2,
  });
  expect(body.hours).toHaveLength(1);
});

test("a token sees the figures of its own namespace, and no route shows the rows themselves", async () => {
  const scene = await sceneOf({ accessToken: "0123456789abcdef0123456789abcdef" });
  const shop = await scene.token({ name: "shop", namespace: "shop" });
  const bank = await scene.token({ name: "bank", namespace: "bank", role: "operator" });
  await scene.call("POST /v1/claims", { token: shop, body: { operation: "sell", key: "1" } });
  await scene.server.context.figures.flush();
  const seen = async (token: string) => (await scene.call("GET /v1/figures", { token })).body.total.first;
  expect([await seen(bank), await seen("0123456789abcdef0123456789abcdef")]).toEqual([0, 1]);
  expect((await scene.call("GET /v1/figures", { token: shop })).status).toBe(403);
  const { body } = await scene.call("GET /v1/keys", { token: bank });
  expect(body.records).toEqual([]);
  await expect(scene.token({ namespace: FIGURES_NAMESPACE })).rejects.toMatchObject({
    code: "request-invalid",
  });
});
