/** Tests how long the key of a message is remembered, and by which clock. */
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { definePipeline } from "../../src/pipeline/index.ts";
import type { ShellContext } from "../../src/pipeline/model.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { chargeOf, createManifestScene, DAY_MS, HOUR_MS, type Order, shopOf } from "./manifest-scene.ts";

const ORDER = { id: "o-1" };
const AN_HOUR = { idempotency: { key: "id", retention: "1h" } };

test("Bloccs: completion window: a node's `retention` says how long, thirty days if it says nothing", async () => {
  const charge = vi.fn(() => undefined);
  const { push, jump } = createManifestScene(shopOf(charge, AN_HOUR));
  await push(ORDER);
  jump(HOUR_MS - 10);
  expect(await push(ORDER)).toMatchObject({ isDuplicate: true });
  jump(10);
  expect(await push(ORDER)).toMatchObject({ isDuplicate: false });
  expect(charge).toHaveBeenCalledTimes(2);
  const byDefault = createManifestScene(shopOf(charge));
  await byDefault.push(ORDER);
  const { completedAt = 0, keptUntil } = (await byDefault.guard.read(chargeOf("o-1"))) ?? {};
  expect(keptUntil).toBe(completedAt + 30 * DAY_MS);
});

test("Bloccs: window refreshed on success: it counts from the mark, however long the work took", async () => {
  const scene = createManifestScene(
    shopOf(() => scene.sleep(10 * 60_000).then(() => undefined), AN_HOUR),
    {},
  );
  await scene.push(ORDER);
  const record = await scene.guard.read(chargeOf("o-1"));
  const { claimedAt = 0, completedAt = 0, keptUntil } = record ?? {};
  expect(completedAt - claimedAt).toBeGreaterThanOrEqual(10 * 60_000);
  expect(keptUntil).toBe(completedAt + HOUR_MS);
});

test("Bloccs: window never extended by repeats: duplicates change nothing", async () => {
  const charge = vi.fn(() => undefined);
  const { push, jump, guard } = createManifestScene(shopOf(charge, AN_HOUR));
  await push(ORDER);
  const before = await guard.read(chargeOf("o-1"));
  for (let quarter = 0; quarter < 3; quarter++) {
    jump(HOUR_MS / 4);
    await push(ORDER);
  }
  expect(await guard.read(chargeOf("o-1"))).toMatchObject({ keptUntil: before?.keptUntil });
  jump(HOUR_MS / 4);
  await push(ORDER);
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: background sweep: the guard removes what is over, and an expired key does not wait for it", async () => {
  const charge = vi.fn(() => undefined);
  const scene = createManifestScene(shopOf(charge, AN_HOUR), {}, { purgeEveryMs: 60_000 });
  await scene.push(ORDER);
  await scene.push({ id: "o-2" });
  scene.jump(HOUR_MS);
  expect(await scene.push(ORDER)).toMatchObject({ isDuplicate: false });
  await scene.advance(120_000);
  expect(scene.guardEvents).toContainEqual({ kind: "purged", removed: 1 });
  expect((await scene.inner.list?.({ namespace: "scene", limit: 10 }))?.records).toHaveLength(1);
});

test("Bloccs: monotonic clock: delays, retries and timeouts are not moved by a wall clock that is set", async () => {
  let hours = 0;
  // The wall clock is an hour further at every read, and once a year back.
  vi.spyOn(Date, "now").mockImplementation(() => (hours++ === 3 ? -365 * 24 : hours) * HOUR_MS);
  const ranMs: number[] = [];
  const charge = vi.fn((_: Order, { attempt }: ShellContext) => {
    if (attempt === 0) throw new Error("no answer");
    return undefined;
  });
  const guard = createGuard({ store: memoryStore({ clock: { now: () => 0 } }), purgeEveryMs: 0 });
  const contract = { timeout: "1m", retry: { max: 1, base: "20ms", jitter: 0 } };
  const startedAt = performance.now();
  const pipeline = await definePipeline(shopOf(charge, contract, { delay: { by: "20ms" } })).start(guard, {
    onEvent: (event) => event.kind === "completed" && ranMs.push(event.ranMs),
  });
  expect((await pipeline.push("orders", ORDER)).verdict).toBe("acknowledge");
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(38);
  expect(charge).toHaveBeenCalledTimes(2);
  expect(ranMs[0]).toBeGreaterThanOrEqual(19);
  expect(ranMs[0]).toBeLessThan(HOUR_MS);
  await pipeline.close();
  await guard.close();
});
