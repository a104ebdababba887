/** Tests how many calls one process takes through a store that is 80 milliseconds away. */
import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { startProxy } from "../services/proxy.ts";
import { count, ms, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, REDIS } from "./subjects.ts";

const DISTANCE_MS = 80;
const CALLERS = 1_000;

/** Claims and completes fresh keys by so many callers at once. Returns how many a second. */
async function rateOf(store: Store, forMs: number): Promise<number> {
  let calls = 0;
  const startedAt = performance.now();
  async function callAgain(): Promise<void> {
    while (performance.now() - startedAt < forMs) {
      const parts = { namespace: "far", scope: "", operation: "load", key: randomUUID() };
      const { id } = toIdentity(parts);
      const token = randomUUID();
      const claim = { id, parts, token, leaseMs: 30_000, retentionMs: 60_000, hold: false };
      expect(await store.claim(claim)).toMatchObject({ status: "new" });
      expect(await store.complete({ id, token, outcome: "done", retentionMs: 60_000 })).toBe(true);
      calls++;
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, callAgain));
  return calls / ((performance.now() - startedAt) / 1_000);
}

describe("one process takes thousands of calls a second through a store far away", () => {
  const { forMs, leastPerSecond } = sizeOf("far-stores");
  for (const subject of [REDIS, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      await openSubject(context, url);
      const proxy = await startProxy(url);
      onTestFinished(() => proxy.stop());
      proxy.latency(DISTANCE_MS);
      const store = await openSubject(context, proxy.url);
      const rate = await rateOf(store, forMs);
      await report(store, {
        trial: `A store ${ms(DISTANCE_MS)} away`,
        figures: `${count(rate)} calls a second, of two steps each, by one process with ${count(CALLERS)} callers`,
      });
      expect(rate).toBeGreaterThan(leastPerSecond);
    });
});
