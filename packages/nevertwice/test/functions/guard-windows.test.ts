/** Tests the lease and the retention of guarded work, and how they can be changed. */
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { crash, createScene, MINUTE_MS } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };
const DAY_MS = 86_400_000;

test("Baldur: completion window: an outcome is replayed until its retention ends, and no longer", async () => {
  const { guard, clock } = createScene({ retentionMs: 30 * MINUTE_MS });
  const charge = vi.fn(async () => "charged");
  await guard.run(ORDER, charge);
  clock.advance(30 * MINUTE_MS - 1);
  await guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(1);
  clock.advance(1);
  await guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(2);
  expect(createScene().guard.policy.retentionMs).toBe(DAY_MS);
});

test("Baldur: separate in-flight window: a key remembered for days is not blocked for days after a crash", async () => {
  const scene = createScene({ leaseMs: 2 * MINUTE_MS, retentionMs: 7 * DAY_MS, onPending: "reject" });
  await crash(scene, ORDER);
  scene.clock.advance(-1);
  expect(await scene.guard.tryRun(ORDER, async () => "early")).toEqual({
    status: "pending",
    leaseLeftMs: 1,
    elapsedMs: 2 * MINUTE_MS - 1,
  });
  scene.clock.advance(1);
  expect(await scene.guard.run(ORDER, async () => "charged")).toBe("charged");
  scene.clock.advance(7 * DAY_MS - 1);
  expect(await scene.guard.run(ORDER, async () => "again")).toBe("charged");
});

test("Baldur: per-call windows: a call can set both", async () => {
  const { guard, clock } = createScene();
  const windows = { leaseMs: 5_000, retentionMs: 1_000 };
  const left = await guard.run({ ...ORDER, ...windows }, async () => (await guard.read(ORDER))?.leaseLeftMs);
  expect(left).toBe(5_000);
  clock.advance(1_000);
  expect(await guard.read(ORDER)).toBeUndefined();
});

test("Baldur: window refreshed on success: it counts from the end of the work, however long that took", async () => {
  const { guard, clock } = createScene({ leaseMs: 30 * MINUTE_MS, retentionMs: 10 * MINUTE_MS });
  await guard.run(ORDER, async () => clock.advance(20 * MINUTE_MS));
  const doneAt = clock.now();
  expect(await guard.read(ORDER)).toMatchObject({ completedAt: doneAt, keptUntil: doneAt + 10 * MINUTE_MS });
});

test("Baldur: window never extended by repeats: neither by calls nor by marks", async () => {
  const { guard, clock } = createScene({ retentionMs: 10_000, markRetentionMs: 10_000 });
  const charge = vi.fn(async () => "charged");
  const marked = { operation: "import", key: "row-1" };
  for (let second = 0; second < 10; second++) {
    await guard.run(ORDER, charge);
    expect(await guard.mark(marked)).toBe(second === 0);
    clock.advance(1_000);
  }
  await guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(2);
  expect(await guard.mark(marked)).toBe(true);
});

test("Baldur: lazy expiry on access: an expired record is absent even before it is purged", async () => {
  const { guard, store, clock } = createScene({ retentionMs: 1_000 });
  await guard.run(ORDER, async () => "charged");
  clock.advance(1_000);
  expect(await guard.read(ORDER)).toBeUndefined();
  expect(await guard.run(ORDER, async ({ number }) => number)).toBe(1);
  expect(store.calls.purge).toBe(0);
});

test("Baldur: injectable clock: a test advances a day at once", async () => {
  const clock = manualClock();
  const guard = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
  await guard.run(ORDER, async () => "yesterday's");
  clock.advance(DAY_MS);
  expect(await guard.run(ORDER, async () => "today's")).toBe("today's");
  expect((await guard.read(ORDER))?.completedAt).toBe(clock.now());
  await guard.close();
});

test("Baldur: run-time retuning: changed windows apply from the next call on", async () => {
  const { guard, clock } = createScene({ retentionMs: 1_000 });
  const settled = guard.with({ onCompleted: "reject" });
  await guard.run(ORDER, async () => "charged");
  guard.retune({ retentionMs: 60_000, leaseMs: 5_000 });
  expect([guard.policy.leaseMs, settled.policy.retentionMs]).toEqual([5_000, 60_000]);
  await settled.run({ ...ORDER, key: "order-2" }, async () => "charged");
  clock.advance(1_000);
  expect(await guard.read(ORDER)).toBeUndefined();
  expect(await guard.read({ ...ORDER, key: "order-2" })).toMatchObject({ state: "completed" });
});
