/** Tests when counted keys are free again, and that the stored keys never exceed the quota. */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createQuota } from "../../src/http/quota.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { everyPage } from "../every-page.ts";
import { DAY_MS, HOUR_MS } from "./profile-scene.ts";
import { type Layer, processes, QUOTA_OPERATION } from "./quota-scene.ts";

interface Scene {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly layers: readonly Layer[];
  /** How many records there are: keys, and blocks of the quota. */
  alive(): Promise<{ keys: number; blocks: number }>;
}

function scene(count: number, options: Parameters<typeof processes>[2]): Scene {
  const clock = manualClock();
  const store = memoryStore({ clock });
  const layers = processes(count, store, options, clock);
  return {
    clock,
    store,
    layers,
    async alive() {
      const { records } = await everyPage((layers[0] as Layer).guard.list);
      const blocks = records.filter(({ operation }) => operation === QUOTA_OPERATION).length;
      return { keys: records.length - blocks, blocks };
    },
  };
}

async function fill(layer: Layer, count: number, name: string): Promise<number> {
  let through = 0;
  for (let i = 0; i < count; i++) if ((await layer.status(`${name}-${i}`)) === 201) through++;
  return through;
}

describe("keys that are held for a decision", () => {
  /** A layer with some keys whose outcome is unknown, long after the blocks in which they were counted. */
  async function withHeld(count: number, quota: Parameters<typeof scene>[1]["quota"]) {
    const { clock, layers } = scene(1, {
      quota,
      retentionMs: HOUR_MS,
      onLapsed: "hold",
      keep: { 599: "unknown" },
    });
    const [layer] = layers as [Layer];
    for (let i = 0; i < count; i++) await layer.send({ key: `held-${i}`, status: 599 });
    clock.advance(4 * HOUR_MS);
    return { clock, layer };
  }

  test.each([{ keys: 5 }, { totalKeys: 5 }])("count against %j until they are decided", async (quota) => {
    const { clock, layer } = await withHeld(2, quota);
    expect(await fill(layer, 5, "first")).toBe(3);
    clock.advance(4 * HOUR_MS);
    for (const { operation = "", key = "", scope = "", fence } of (await layer.guard.listUnknown()).records)
      await layer.guard.resolve({ operation, key, scope, fence }, { status: "not-done" });
    clock.advance(4 * HOUR_MS);
    expect(await fill(layer, 6, "second")).toBe(5);
  });

  test("count only for their own owner", async () => {
    const { layer } = await withHeld(5, { keys: 5 });
    expect(await fill(layer, 1, "own")).toBe(0);
    expect(await layer.status("k", "another tenant")).toBe(201);
  });
});

describe("keys whose retention ends", () => {
  test.each([3, 64])(
    "count until then and, with a quota of %i, stop counting within another quarter of it",
    async (quota) => {
      const { clock, layers, alive } = scene(1, { quota, retentionMs: 8 * HOUR_MS });
      const [layer] = layers as [Layer];
      expect(await fill(layer, quota + 1, "first")).toBe(quota);
      clock.advance(8 * HOUR_MS - 1);
      expect(await fill(layer, 1, "early")).toBe(0);
      clock.advance(2 * HOUR_MS + 1);
      expect(await fill(layer, quota + 1, "second")).toBe(quota);
      expect(await alive()).toEqual({ keys: quota, blocks: quota });
    },
  );

  test("are purged together with the blocks in which they were counted", async () => {
    const { clock, store, layers } = scene(1, { quota: { keys: 640, bytes: 64_000, totalKeys: 6_400 } });
    const [layer] = layers as [Layer];
    await fill(layer, 100, "key");
    const { records } = await everyPage(layer.guard.list);
    expect(records.length).toBeGreaterThan(100);
    expect((await store.purge(1_000)).removed).toBe(0);
    clock.advance(3 * DAY_MS);
    let removed = 0;
    for (let more = true; more; ) {
      const bite = await store.purge(1_000);
      removed += bite.removed;
      more = bite.more;
    }
    expect(removed).toBe(records.length);
  });

  test("count as long as their records are kept to answer `expired`", async () => {
    const { clock, layers } = scene(1, {
      quota: 2,
      retentionMs: HOUR_MS,
      expired: "refuse",
      refuseMs: 7 * HOUR_MS,
    });
    const [layer] = layers as [Layer];
    expect(await fill(layer, 3, "first")).toBe(2);
    clock.advance(7 * HOUR_MS);
    expect(await fill(layer, 1, "early")).toBe(0);
    clock.advance(4 * HOUR_MS);
    expect(await fill(layer, 3, "second")).toBe(2);
  });

  test("occupy at most two blocks per process when a caller comes rarely", async () => {
    // With a new block for every request, eight processes would need more than the 64 blocks that there are.
    const { clock, layers, alive } = scene(8, { quota: 6_400 });
    let most = 0;
    for (let round = 0; round < 24; round++) {
      clock.advance(DAY_MS / 7);
      for (const [i, layer] of layers.entries()) expect(await layer.status(`key-${round}-${i}`)).toBe(201);
      most = Math.max(most, (await alive()).blocks);
    }
    expect(most).toBeLessThanOrEqual(8 * 2);
  });
});

describe("a clock that is set back by hours", () => {
  function back(quota: number) {
    let time = 10 * HOUR_MS;
    const clock = { now: () => time };
    const [layer] = processes(1, memoryStore(), { quota }, clock) as [Layer];
    const goBack = () => {
      time -= 5 * HOUR_MS;
    };
    return { layer, goBack };
  }

  test("spends no block that was taken later than now", async () => {
    const { layer, goBack } = back(6_400);
    const blocks = async () => {
      const { records } = await everyPage(layer.guard.list);
      return records.filter(({ operation }) => operation === QUOTA_OPERATION).length;
    };
    await fill(layer, 2, "before");
    expect(await blocks()).toBe(1);
    goBack();
    await fill(layer, 2, "after");
    expect(await blocks()).toBe(2);
  });

  test("does not refuse for hours", async () => {
    const { layer, goBack } = back(1);
    expect(await fill(layer, 2, "before")).toBe(1);
    await layer.guard.forget({ operation: "POST /orders", scope: "tenant", key: "before-0" });
    const { records } = await everyPage(layer.guard.list);
    for (const { operation, key } of records) {
      if (operation === QUOTA_OPERATION) await layer.guard.reopen({ operation, key: key as string });
    }
    expect(await layer.status("resting")).toBe(429);
    goBack();
    expect(await layer.status("after")).toBe(201);
  });
});

test("the longest possible retention can be counted too", async () => {
  const [layer] = scene(1, { quota: 200, retentionMs: 3_155_760_000_000 }).layers as [Layer];
  expect(await layer.status("a")).toBe(201);
});

test("a retention that is shorter than a call of the store can be counted too", async () => {
  let time = 0;
  const now = () => {
    time += 100;
    return time;
  };
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, retentionMs: 1 });
  const charge = await createQuota(guard, { keys: 200 }, now).admit("tenant", async () => false);
  expect(charge).toBeDefined();
});

describe("the stored keys", () => {
  const RETENTION_MS = 2 * HOUR_MS;

  test("are never more than the quota when a block's last key comes late in the life of the block", async () => {
    const { clock, layers, alive } = scene(2, { quota: 128, retentionMs: RETENTION_MS });
    const [slow, other] = layers as [Layer, Layer];
    await slow.status("first");
    clock.advance(RETENTION_MS - 1);
    expect(await slow.status("last")).toBe(201);
    clock.advance(1);
    expect(await fill(other, 200, "other")).toBe(126);
    expect((await alive()).keys).toBe(127);
  });

  test("are never more than the quota when the work of a block's last key takes minutes", async () => {
    const { clock, layers, alive } = scene(2, { quota: 128, retentionMs: RETENTION_MS, maxRunMs: HOUR_MS });
    const [slow, other] = layers as [Layer, Layer];
    await slow.status("first");
    clock.advance(RETENTION_MS - 1);
    slow.onRun(() => clock.advance(HOUR_MS / 2));
    expect(await slow.status("last")).toBe(201);
    clock.advance(RETENTION_MS - 1);
    expect(await fill(other, 200, "other")).toBe(126);
    expect((await alive()).keys).toBe(127);
  });

  test.each([
    [1, 3, 1],
    [2, 10, 2],
    [3, 100, 3],
    [4, 200, 2],
    [5, 70, 5],
  ])("are never more than the quota, in random history %i", async (seed, quota, count) => {
    const { clock, layers, alive } = scene(count, { quota, retentionMs: RETENTION_MS });
    const { next: random } = seededRandom(seed);
    let through = 0;
    for (let step = 0; step < 60; step++) {
      const layer = layers[Math.floor(random() * count)] as Layer;
      through += await fill(layer, 1 + Math.floor((random() * quota) / 4), `step-${step}`);
      expect((await alive()).keys).toBeLessThanOrEqual(quota);
      clock.advance(Math.floor(random() * random() * RETENTION_MS));
    }
    // After it has refused for a while, it lets keys through again: several times the quota in all.
    expect(through).toBeGreaterThan(4 * quota);
  });
});
