/** What the memory store adds to the contract: a maximum size, and no timers. The store cases test the contract. */
import { afterEach, expect, test, vi } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";

afterEach(() => vi.restoreAllMocks());

function claim(key: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  const parts = { namespace: "n", scope: "s", operation: "o", key };
  return {
    id: `id-${key}`,
    parts,
    token: `token-${key}`,
    leaseMs: 100,
    retentionMs: 1_000,
    hold: false,
    ...more,
  };
}

test("a full store refuses new keys with store-full and evicts nothing", async () => {
  const store = memoryStore({ clock: manualClock(), maxRecords: 2 });
  await store.claim(claim("a"));
  await store.claim(claim("b"));
  await expect(store.claim(claim("c"))).rejects.toMatchObject({ code: "store-full", retryable: true });
  expect(await store.read("id-c")).toBeUndefined();
  expect(await store.claim(claim("a"))).toMatchObject({ status: "new", number: 1 });
  expect(await store.claim(claim("a", { token: "other" }))).toMatchObject({ status: "pending" });
});

test("a full store makes room only by removing an expired record", async () => {
  const clock = manualClock();
  const store = memoryStore({ clock, maxRecords: 2 });
  await store.claim(claim("a"));
  await store.claim(claim("b", { retentionMs: 100_000 }));
  clock.advance(1_100);
  expect(await store.claim(claim("c"))).toMatchObject({ status: "new" });
  expect(await store.read("id-a")).toBeUndefined();
  expect((await store.read("id-b"))?.state).toBe("lapsed");
});

test("purge looks at no more records than its limit, and reaches all of them over several calls", async () => {
  const clock = manualClock();
  const store = memoryStore({ clock });
  for (let i = 0; i < 1_000; i++) await store.claim(claim(`k${i}`));
  clock.advance(1_100);
  let removed = 0;
  for (let bites = 0; bites < 10; bites++) {
    const report = await store.purge(100);
    expect(report.removed).toBe(100);
    removed += report.removed;
  }
  expect(removed).toBe(1_000);
  expect(await store.purge(100)).toEqual({ removed: 0, more: false });
});

test("uses no timer, and a retention of 400 days lasts 400 days", async () => {
  const setTimer = vi.spyOn(globalThis, "setTimeout");
  const setRepeating = vi.spyOn(globalThis, "setInterval");
  const clock = manualClock();
  const store = memoryStore({ clock });
  await store.claim(claim("a"));
  const retentionMs = 400 * 86_400_000;
  await store.complete({ id: "id-a", token: "token-a", outcome: "done", retentionMs });
  clock.advance(retentionMs - 1);
  expect(await store.claim(claim("a"))).toMatchObject({ status: "completed" });
  clock.advance(1);
  expect(await store.claim(claim("a"))).toMatchObject({ status: "new", number: 1 });
  expect(setTimer).not.toHaveBeenCalled();
  expect(setRepeating).not.toHaveBeenCalled();
});

test("fences are one sequence per store: they grow across keys and when a key starts again", async () => {
  const clock = manualClock(1_700_000_000_000);
  const store = memoryStore({ clock });
  const fenceOf = async (key: string, token: string) => {
    const answer = await store.claim(claim(key, { token }));
    return answer.status === "new" ? answer.fence : 0;
  };
  const first = await fenceOf("a", "t1");
  const second = await fenceOf("b", "t2");
  clock.advance(-60_000);
  const third = await fenceOf("c", "t3");
  expect([first, second, third]).toEqual([
    1_700_000_000_000_000, 1_700_000_000_000_001, 1_700_000_000_000_002,
  ]);
});
