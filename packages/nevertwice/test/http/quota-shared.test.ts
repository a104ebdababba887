/** Tests how many keys several guards on one store let through together: never more than the quota, and at most one block per guard less. */
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { countingAlone, flood, layerOn, processes } from "./quota-scene.ts";

/** The largest block of a limit: a 64th of it. */
const blockOf = (limit: number) => Math.ceil(limit / 64);

describe("HTTP layers that share a store", () => {
  test.each([
    [1, 3],
    [2, 3],
    [1, 64],
    [1, 100],
    [2, 100],
    [5, 100],
    [2, 200],
    [5, 320],
  ])("%i of them let no more than %i fresh keys through", async (count, quota) => {
    const layers = processes(count, memoryStore(), { quota });
    const { through, counts } = await flood(layers, quota * 2 + 200);
    expect(through).toBeLessThanOrEqual(quota);
    expect(through).toBeGreaterThanOrEqual(quota - (count - 1) * (blockOf(quota) - 1));
    expect(counts).toEqual({ 201: through, 429: quota * 2 + 200 - through });
  });

  test("a broken twin that does not share its counts lets more through, so these tests can fail", async () => {
    const shared = memoryStore();
    const twins = Array.from({ length: 2 }, () =>
      layerOn(countingAlone(shared, memoryStore()), { quota: 100 }),
    );
    expect((await flood(twins, 400)).through).toBe(200);
  });
});
