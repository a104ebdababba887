/**
 * Tests what a purge costs the claims of the same moment: windows with a purge and without one take turns, so that other load on
 * the machine affects both. The p99 is that of claims at a steady rate; the throughput that of callers who claim without a pause.
 */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { count, medianOf, ms, report } from "./figures.ts";
import { fill } from "./filling.ts";
import { claimOneByOne, claimSteadily } from "./load.ts";
import { startPurging } from "./purging.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, SQLITE } from "./subjects.ts";

interface Window {
  readonly p99Ms: number;
  readonly perSecond: number;
  readonly removedPerSecond: number;
}

const CALLERS = 32;
const { expired, windows, windowMs, claimsPerSecond, claimsEach } = sizeOf("purge-cost");
const WORST_P99 = 1.1;
const LEAST_THROUGHPUT = 0.9;

async function measureWindow(store: Store, isPurging: boolean): Promise<Window> {
  const stop = isPurging ? await startPurging(store) : undefined;
  const took = (await claimSteadily(store, claimsPerSecond, windowMs)).sort((a, b) => a - b);
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: CALLERS }, () => claimOneByOne(store, claimsEach)));
  const seconds = (performance.now() - startedAt) / 1_000;
  const purged = await stop?.();
  return {
    p99Ms: took[Math.floor(took.length * 0.99)] ?? Number.NaN,
    perSecond: (CALLERS * claimsEach) / seconds,
    removedPerSecond: purged === undefined ? 0 : purged.removed / purged.seconds,
  };
}

/** "1.02 to 1.31" */
function tellSpread(ratios: readonly number[]): string {
  return `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
}

describe("a purge hardly slows the claims of the same moment", () => {
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      const store = await openSubject(context, url);
      await fill({ store, url, records: expired, isExpired: true });
      // The first window of each kind warms up.
      const calm: Window[] = [await measureWindow(store, false)];
      const purging: Window[] = [await measureWindow(store, true)];
      while (purging.length <= windows) {
        calm.push(await measureWindow(store, false));
        purging.push(await measureWindow(store, true));
      }
      const median = (all: readonly Window[], part: keyof Window) =>
        medianOf(all.slice(1).map((window) => window[part]));
      const ratios = (part: keyof Window) =>
        purging.slice(1).map((window, index) => window[part] / (calm[index + 1]?.[part] ?? Number.NaN));
      const p99 = median(purging, "p99Ms") / median(calm, "p99Ms");
      const throughput = median(purging, "perSecond") / median(calm, "perSecond");
      const removed = median(purging, "removedPerSecond");
      await report(store, {
        trial: "What a purge costs the claims of the same moment",
        figures:
          `${count(removed)} expired records a second are purged; at ${count(claimsPerSecond)} claims a second their p99 is ` +
          `${ms(median(calm, "p99Ms"))} without a purge and ${ms(median(purging, "p99Ms"))} with one: ${p99.toFixed(2)} times ` +
          `(of each pair ${tellSpread(ratios("p99Ms"))}); ${CALLERS} callers without a pause claim ` +
          `${count(median(calm, "perSecond"))} and ${count(median(purging, "perSecond"))} a second: ${throughput.toFixed(2)} times ` +
          `(${tellSpread(ratios("perSecond"))}); medians of ${windows} windows each, in turns`,
      });
      // In every window there was something to purge. A short one may end before its purge does.
      const perWindow = purging.map((window) => window.removedPerSecond);
      expect(IS_FULL ? Math.min(...perWindow) : Math.max(...perWindow)).toBeGreaterThan(0);
      if (!IS_FULL) return;
      expect(p99, "p99 with a purge, divided by p99 without one").toBeLessThanOrEqual(WORST_P99);
      expect(throughput, "throughput with a purge, divided by that without one").toBeGreaterThanOrEqual(
        LEAST_THROUGHPUT,
      );
    });
});
