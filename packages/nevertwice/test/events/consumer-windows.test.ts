/** Tests how long requests and events are remembered. */
import { expect, test, vi } from "vitest";
import { consumer } from "../../src/events/index.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createScene } from "../functions/guard-scene.ts";

const ORDER = { operation: "create-order", key: "request-1" };
const DAY_MS = 86_400_000;

test("Skill: completion window: an outcome answers for 24 hours by default", async () => {
  const { guard, clock } = createScene();
  const create = vi.fn(async () => "created");
  await guard.run(ORDER, create);
  clock.advance(DAY_MS - 1);
  await guard.run(ORDER, create);
  expect(create).toHaveBeenCalledTimes(1);
  clock.advance(1);
  await guard.run(ORDER, create);
  expect(create).toHaveBeenCalledTimes(2);
});

test("Skill: per-call windows: each operation says how long it is remembered, and how long it may be stuck", async () => {
  const { guard, clock } = createScene();
  const windows = { retentionMs: 2 * DAY_MS, leaseMs: 7_000 };
  const left = await guard.run({ ...ORDER, ...windows }, async () => (await guard.read(ORDER))?.leaseLeftMs);
  expect(left).toBe(7_000);
  expect((await guard.read(ORDER))?.keptUntil).toBe(clock.now() + 2 * DAY_MS);
});

test("Skill: window never extended by repeats: a sender that never stops does not keep a record alive", async () => {
  const { guard, clock } = createScene();
  const work = vi.fn(async () => "processed");
  const events = consumer(guard, { name: "assets", key: (id: string) => id, work, retentionMs: 10_000 });
  for (let second = 0; second < 10; second++) {
    await events.handle("event-1");
    clock.advance(1_000);
  }
  expect(work).toHaveBeenCalledTimes(1);
  await events.handle("event-1");
  expect(work).toHaveBeenCalledTimes(2);
});

test("Skill: background sweep: records past their time are removed without anybody asking for them", async () => {
  const clock = manualClock();
  const store = memoryStore({ clock });
  const purge = vi.spyOn(store, "purge");
  const guard = createGuard({ store, purgeEveryMs: 5, retentionMs: 1_000 });
  await guard.run(ORDER, async () => "created");
  clock.advance(1_000);
  const removed = async () => {
    const reports = await Promise.all(purge.mock.results.map(({ value }) => value));
    return reports.reduce((sum, { removed }) => sum + removed, 0);
  };
  await vi.waitFor(async () => expect(await removed()).toBe(1));
  await guard.close();
});

test("Skill: long horizon (beyond window): an event that comes again after 29 days is known", async () => {
  const { guard, clock } = createScene();
  const work = vi.fn(async () => "processed");
  const events = consumer(guard, { name: "assets", key: (id: string) => id, work, sender: "sqs" });
  await events.handle("event-1");
  clock.advance(30 * DAY_MS - 1);
  expect((await events.handle("event-1")).status).toBe("done-before");
  clock.advance(1);
  expect((await events.handle("event-1")).status).toBe("done");
});
