/** The quota of one process: what it counts, which requests pass anyway, and how many store calls it needs. */
import { describe, expect, test } from "vitest";
import type { HttpOptions } from "../../src/http/options.ts";
import { createQuota } from "../../src/http/quota.ts";
import { createGuard, type GuardOptions } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { type NotingStore, notingStore } from "./conformance/service.ts";
import { HOUR_MS } from "./profile-scene.ts";
import { flood, type Layer, layerOn, QUOTA_OPERATION } from "./quota-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

type Options = Partial<HttpOptions<Request>>;

function scene(options: Options, guardOptions: Partial<GuardOptions> = {}) {
  const clock = manualClock();
  const { store, calls } = notingStore(guardOptions.store ?? memoryStore({ clock }));
  const layer = layerOn(store, { clock, ...options }, { ...guardOptions, store });
  const methods = () => calls.map(({ method }) => method);
  /** The calls to the store since the last time. */
  let seen = 0;
  const asked = () => {
    const since = methods().slice(seen);
    seen = calls.length;
    return since;
  };
  return { ...layer, clock, store, asked, blocks: () => blocksIn(calls) };
}

/** The claims of blocks, including blocks that another process had taken. */
function blocksIn(calls: NotingStore["calls"]): NotingStore["calls"] {
  return calls.filter(
    ({ method, request }) => method === "claim" && request.parts.operation === QUOTA_OPERATION,
  );
}

async function statuses(layer: Pick<Layer, "status">, keys: readonly string[]): Promise<number[]> {
  const answers: number[] = [];
  for (const key of keys) answers.push(await layer.status(key));
  return answers;
}

const numbered = (count: number, name = "key") => Array.from({ length: count }, (_, i) => `${name}-${i}`);

describe("counted keys", () => {
  test.each([1, 2, 3, 10, 63, 64, 65, 100, 130])(
    "a quota of %i lets exactly that many keys through",
    async (quota) => {
      const { runs, ...layer } = scene({ quota });
      await statuses(layer, numbered(quota + 5));
      expect(runs()).toBe(quota);
    },
  );

  test("a number is a limit of keys", async () => {
    for (const quota of [2, { keys: 2 }])
      expect(await statuses(scene({ quota }), numbered(3))).toEqual([201, 201, 429]);
  });

  test("each scope has its own keys, whatever the scopes are called", async () => {
    const { status } = scene({ quota: 1 });
    const names = ["a", "a|", "a|#0", "#1", "~", "\\~", "b".repeat(1_024), "c".repeat(1_024)];
    for (const name of names) expect(await status("first", name)).toBe(201);
    for (const name of names) expect(await status("second", name)).toBe(429);
  });

  test('with scope "anyone" all keys are counted together', async () => {
    const { send } = scene({ quota: 2, scope: "anyone" });
    const answers = ["a", "b", "c"].map((tenant, i) => ({ tenant, key: `key-${i}` }));
    const seen: number[] = [];
    for (const order of answers) seen.push((await send(order)).status);
    expect(seen).toEqual([201, 201, 429]);
  });

  test('with scope "anyone" a key counts for its scope and for the total', async () => {
    const layer = scene({ quota: { keys: 5, totalKeys: 5 }, scope: "anyone" });
    expect(await statuses(layer, numbered(6))).toEqual([201, 201, 201, 201, 201, 429]);
  });

  test("a known key is answered when the quota is full, and counts nothing", async () => {
    const { send, runs, ...layer } = scene({ quota: 2 });
    await send({ key: "a" });
    for (let i = 0; i < 20; i++) expect((await send({ key: "a" })).headers.get(REPLAYED)).toBe("true");
    expect(await statuses(layer, ["b", "c"])).toEqual([201, 429]);
    expect((await send({ key: "a" })).headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(2);
  });

  test("duplicates that arrive at once count as one key", async () => {
    const { send, runs, ...layer } = scene({ quota: 3 });
    await Promise.all(Array.from({ length: 20 }, () => send({ key: "a" })));
    expect(runs()).toBe(1);
    expect(await statuses(layer, ["b", "c", "d"])).toEqual([201, 201, 429]);
  });

  test("a key whose work failed still counts, since its record stays; its retries count nothing", async () => {
    const { send, store, ...layer } = scene({ quota: 2 });
    for (let i = 0; i < 5; i++) expect((await send({ key: "a", status: 500 })).status).toBe(500);
    expect(await statuses(layer, ["b", "c"])).toEqual([201, 429]);
    expect(await statuses(layer, ["a"])).toEqual([201]);
  });

  test("layers whose limits differ count apart, and those whose limits are the same count together", async () => {
    const store = memoryStore();
    const [two, alsoTwo, three] = [2, 2, 3].map((quota) => layerOn(store, { quota })) as [
      Layer,
      Layer,
      Layer,
    ];
    expect([await two.status("a"), await alsoTwo.status("b")]).toEqual([201, 201]);
    expect([await two.status("c"), await alsoTwo.status("c")]).toEqual([429, 429]);
    expect(await statuses(three, ["c", "d", "e", "f"])).toEqual([201, 201, 201, 429]);
  });
});

describe("bytes", () => {
  test("an answer counts with its headers and body, and no new key is accepted after the limit", async () => {
    const { send } = scene({ quota: { bytes: 1_000 } });
    const kept = "content-type".length + "text/plain;charset=UTF-8".length + 64;
    const seen: number[] = [];
    for (let i = 0; i < 12; i++) seen.push((await send({ key: `key-${i}`, bytes: 64 })).status);
    expect(kept).toBe(100);
    expect(seen).toEqual([...numbered(10).map(() => 201), 429, 429]);
    const refused = await send({ key: "another" });
    expect(await refused.json()).toMatchObject({
      code: "quota-exceeded",
      detail: "The kept responses of this caller have reached their limit of bytes.",
    });
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
  });

  test("one answer may exceed the rest of the limit, and the excess is paid from later blocks", async () => {
    const { send, clock } = scene({ quota: { bytes: 64_000 }, retentionMs: HOUR_MS });
    expect((await send({ key: "large", bytes: 50_000 })).status).toBe(201);
    expect((await send({ key: "next", bytes: 13_000 })).status).toBe(201);
    expect((await send({ key: "overdraws", bytes: 100_000 })).status).toBe(201);
    expect((await send({ key: "refused" })).status).toBe(429);
    clock.advance(4 * HOUR_MS);
    expect((await send({ key: "refused" })).status).toBe(201);
  });

  test("an answer that is not kept counts no bytes, and one that is too large counts its headers only", async () => {
    const { send } = scene({ quota: { bytes: 200 }, maxOutcomeBytes: 1_000 });
    for (let i = 0; i < 5; i++)
      expect((await send({ key: `failed-${i}`, bytes: 500, status: 500 })).status).toBe(500);
    for (let i = 0; i < 5; i++) expect((await send({ key: `large-${i}`, bytes: 2_000 })).status).toBe(201);
    expect((await send({ key: "kept", bytes: 500 })).status).toBe(201);
    expect((await send({ key: "refused" })).status).toBe(429);
  });

  test("running requests may exceed the limit by at most one answer each", async () => {
    const { send, runs } = scene({ quota: { bytes: 10_000 } });
    const width = 8;
    await flood([{ send, runs } as Layer], 400, (i) => ({ key: `key-${i}`, bytes: 964 }), width);
    expect(runs()).toBeGreaterThanOrEqual(10);
    expect(runs()).toBeLessThan(10 + width);
  });
});

describe("all scopes together", () => {
  const invented = (index: number) => ({ key: "key", tenant: `stranger-${index}` });

  test("a caller who invents scopes is stopped at the total", async () => {
    const layer = scene({ quota: { keys: 10, totalKeys: 20 } });
    const { through, counts } = await flood([layer], 200, invented);
    expect([through, counts]).toEqual([20, { 201: 20, 429: 180 }]);
    expect(await (await layer.send(invented(999))).json()).toMatchObject({
      code: "quota-exceeded",
      detail: "All callers together have reached the limit of stored keys.",
    });
  });

  test("an owner at its own limit uses up nothing of the total", async () => {
    const layer = scene({ quota: { keys: 3, totalKeys: 6 } });
    expect(await statuses(layer, numbered(50))).toEqual([201, 201, 201, ...numbered(47).map(() => 429)]);
    const others: number[] = [];
    for (const key of numbered(4)) others.push(await layer.status(key, "another"));
    expect(others).toEqual([201, 201, 201, 429]);
    expect(await layer.status("key", "a third")).toBe(429);
  });

  test("the bytes of all answers are bounded too", async () => {
    const layer = scene({ quota: { totalBytes: 1_000 } });
    const { through } = await flood([layer], 50, (i) => ({ ...invented(i), bytes: 64 }), 1);
    expect(through).toBe(10);
    expect(await (await layer.send(invented(999))).json()).toMatchObject({
      detail: "The kept responses of all callers together have reached the limit of bytes.",
    });
  });

  test("a refused caller leaves nothing in the store", async () => {
    const layer = scene({ quota: { keys: 5, bytes: 1_000, totalKeys: 4, totalBytes: 100_000 } });
    await flood([layer], 4, invented);
    const before = (await layer.guard.list({ limit: 1_000 })).records.length;
    await flood([layer], 300, (i) => invented(i + 4));
    expect((await layer.guard.list({ limit: 1_000 })).records.length).toBe(before);
  });
});

describe("calls to the store", () => {
  test("while a block has something left, a first request takes two calls and a replay one", async () => {
    const { send, asked } = scene({
      quota: { keys: 6_400, bytes: 64_000_000, totalKeys: 64_000, totalBytes: 64e7 },
    });
    await send({ key: "first" });
    asked();
    for (const key of numbered(98)) {
      await send({ key });
      expect(asked()).toEqual(["claim", "complete"]);
      await send({ key });
      expect(asked()).toEqual(["claim"]);
    }
  });

  test("a new block costs one read, one claim and one completion", async () => {
    const { send, asked } = scene({ quota: 6_400 });
    await send({ key: "first" });
    expect(asked()).toEqual(["read", "claim", "complete", "claim", "complete"]);
  });

  test("when it is full, a flood of new keys costs one read each, and 64 claims from time to time", async () => {
    const { asked, blocks, clock, ...layer } = scene({ quota: 640 });
    await flood([layer], 640);
    asked();
    await layer.status("one-more");
    expect(asked().filter((method) => method === "claim")).toHaveLength(64);
    await flood([layer], 300, (i) => ({ key: `flood-${i}` }));
    expect(new Set(asked())).toEqual(new Set(["read"]));
    const before = blocks().length;
    for (let second = 0; second < 600; second++) {
      clock.advance(1_000);
      await layer.status(`later-${second}`);
    }
    // After 5 s, then 10, 20, 40, and once a minute from then on.
    expect(blocks().length - before).toBeLessThanOrEqual(14 * 64);
    expect(new Set(asked())).toEqual(new Set(["read", "claim"]));
  });

  test("requests that wait for a block wait for the same one", async () => {
    const { send, blocks } = scene({ quota: 6_400 });
    await Promise.all(numbered(100).map((key) => send({ key })));
    expect(blocks()).toHaveLength(1);
  });

  test("the layers of twenty routes take one block between them", async () => {
    const { store, calls } = notingStore(memoryStore());
    const guard = createGuard({ store, purgeEveryMs: 0 });
    for (let route = 0; route < 20; route++) {
      const layer = layerOn(store, { quota: 6_400, operation: `route ${route}` }, { guard });
      expect(await layer.status("key")).toBe(201);
    }
    expect(blocksIn(calls)).toHaveLength(1);
  });

  test("layers with different retentions take separate blocks", async () => {
    const { store, calls } = notingStore(memoryStore());
    const guard = createGuard({ store, purgeEveryMs: 0 });
    for (const retentionMs of [HOUR_MS, 2 * HOUR_MS, undefined]) {
      const layer = layerOn(store, { quota: 6_400, operation: `${retentionMs}`, retentionMs }, { guard });
      expect(await layer.status("key")).toBe(201);
    }
    const taken = blocksIn(calls).map(({ request }) => request.id);
    expect(new Set(taken).size).toBe(3);
  });

  test("a request that was slow to learn that its key is new takes no second block", async () => {
    const store = faultyStore(memoryStore());
    const { send, blocks } = scene({ quota: 6_400 }, { store });
    store.plan("read", "delay");
    const slow = send({ key: "slow" });
    expect((await send({ key: "quick" })).status).toBe(201);
    expect((await slow).status).toBe(201);
    expect(blocks()).toHaveLength(1);
  });

  test("only the last 10,000 scopes are remembered, and one that comes back takes another block", async () => {
    const { store, calls } = notingStore(memoryStore());
    const quota = createQuota(createGuard({ store, purgeEveryMs: 0 }), { keys: 640 }, () => 0);
    const blocksTakenFor = async (scope: string) => {
      const before = calls.length;
      await quota.admit(scope, async () => false);
      return calls.slice(before).filter(({ method }) => method === "complete").length;
    };
    expect([await blocksTakenFor("first"), await blocksTakenFor("first")]).toEqual([1, 0]);
    expect(await blocksTakenFor("second")).toBe(1);
    // A known key takes no block, and its scope is remembered too.
    for (let i = 2; i < 10_000; i++) await quota.admit(`scope-${i}`, async () => true);
    expect(await blocksTakenFor("first")).toBe(0);
    await quota.admit("one too many", async () => true);
    expect([await blocksTakenFor("first"), await blocksTakenFor("second")]).toEqual([0, 1]);
  });
});

describe("a store that fails", () => {
  const failing = () => faultyStore(memoryStore());
  const quick = { storeTimeoutMs: 50 };

  test.each([
    ["read", 1],
    ["claim", 3],
  ] as const)("answers 503 and runs nothing when %s fails", async (method, tries) => {
    const store = failing();
    const { status, runs } = scene({ quota: 5 }, { ...quick, store });
    for (let i = 0; i < tries; i++) store.plan(method, "refuse");
    expect([await status("a"), runs()]).toEqual([503, 0]);
    expect(await statuses({ status }, numbered(6))).toEqual([201, 201, 201, 201, 201, 429]);
  });

  test("runs requests uncounted where the policy says to proceed", async () => {
    const store = failing();
    const { status, runs, blocks } = scene({ quota: 1, onUnavailable: "proceed" }, { ...quick, store });
    for (const key of ["a", "b", "c"]) {
      store.plan("read", "refuse");
      expect(await status(key)).toBe(201);
    }
    expect([runs(), blocks().length]).toEqual([3, 0]);
  });

  test("does not spend a block that the store has not confirmed", async () => {
    const store = failing();
    const { status, runs } = scene({ quota: 5 }, { ...quick, store });
    store.plan("complete", "hang");
    expect([await status("a"), runs()]).toEqual([503, 0]);
  });

  test("lets another guard take the block of one that died while taking it", async () => {
    const clock = manualClock();
    const store = memoryStore({ clock });
    const dying = { ...store, complete: () => new Promise<boolean>(() => {}) };
    const held = { clock, quota: 1, onLapsed: "hold" } as const;
    expect(await layerOn(dying, held, quick).status("a")).toBe(503);
    const other = layerOn(store, held);
    expect(await other.status("b")).toBe(429);
    clock.advance(31_000);
    expect(await other.status("b")).toBe(201);
  });

  test("answers store-full when it is full, whatever the policy says", async () => {
    const store = memoryStore({ maxRecords: 1 });
    const { send } = scene({ quota: 5, onUnavailable: "proceed", scope: "anyone" }, { store });
    await send({ key: "a" });
    expect(await (await send({ key: "b" })).json()).toMatchObject({ code: "store-full" });
  });
});

describe("the policies of the guard", () => {
  test.each([
    { onLapsed: "hold", reconcile: async () => ({ status: "unknown" }) },
    { completeWaitMs: 0 },
    { retentionFrom: "claim" },
    { onCompleted: "reject" },
    { onPending: "wait" },
    { onFailure: "remember" },
  ] as const satisfies readonly Partial<GuardOptions>[])("%o do not change the count", async (policy) => {
    expect(await statuses(scene({ quota: 2, ...policy }), numbered(4))).toEqual([201, 201, 429, 429]);
  });
});

describe("the option", () => {
  test.each([
    [0, "quota is 0; it must be a whole number from 1"],
    [1.5, "quota is 1.5; it must be a whole number"],
    ["10", "quota must be a number of keys, or an object with keys, bytes, totalKeys, totalBytes."],
    [[5], "quota must be a number of keys, or an object with keys, bytes, totalKeys, totalBytes."],
    [{ key: 5 }, "quota must be a number of keys, or an object with keys, bytes, totalKeys, totalBytes."],
    [{ keys: 0 }, "quota.keys is 0; it must be a whole number from 1"],
    [{ bytes: "1 MiB" }, 'quota.bytes is "1 MiB"; it must be a whole number'],
    [{ totalKeys: null }, "quota.totalKeys is null; it must be a whole number"],
  ])("is refused as %o", (quota, message) => {
    expect(() => scene({ quota: quota as number })).toThrow(message);
  });

  test("limits nothing if no limit is given", async () => {
    const { asked, ...layer } = scene({ quota: { keys: undefined, bytes: undefined } });
    expect(await layer.status("a")).toBe(201);
    expect(asked()).toEqual(["claim", "complete"]);
  });
});
