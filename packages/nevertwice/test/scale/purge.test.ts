/** Tests that purging expired records in small steps keeps up with new ones, and hardly slows claims. */
import { describe, expect, test } from "vitest";
import { count, medianOf, ms, report } from "./figures.ts";
import { fill } from "./filling.ts";
import { claimSteadily } from "./load.ts";
import { startPurging } from "./purging.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, SQLITE } from "./subjects.ts";

const FEWEST_WINDOWS = 3;
const MOST_WINDOWS = 200;
/** Windows without a purge are shorter by this factor, because they need not wait for a purge. */
const CALM_SHARE = 4;

describe("expired records are purged faster than claims arrive, and claims are hardly slower", () => {
  const { expired, claimsPerSecond, windowMs, worst } = sizeOf("purge");
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      const store = await openSubject(context, url);
      await fill({ store, url, records: expired, isExpired: true });
      await claimSteadily(store, claimsPerSecond, windowMs);

      const calm: number[] = [];
      const purging: number[] = [];
      let removed = 0;
      let seconds = 0;
      // The original of the copies has expired too.
      while (removed <= expired && purging.length < MOST_WINDOWS) {
        calm.push(medianOf(await claimSteadily(store, claimsPerSecond, windowMs / CALM_SHARE)));
        const stop = await startPurging(store);
        purging.push(medianOf(await claimSteadily(store, claimsPerSecond, windowMs)));
        const purged = await stop();
        removed += purged.removed;
        seconds += purged.seconds;
      }
      const ratio = medianOf(purging) / medianOf(calm);
      await report(store, {
        trial: "Purging expired records",
        figures: `${count(expired)} expired records purged at ${count(removed / seconds)} a second while ${count(claimsPerSecond)} claims a second arrive; a claim takes ${ms(medianOf(calm))} without a purge and ${ms(medianOf(purging))} with one (median of ${purging.length} windows each): ${ratio.toFixed(2)} times`,
      });
      expect(removed).toBe(expired + 1);
      expect(purging.length).toBeGreaterThanOrEqual(FEWEST_WINDOWS);
      expect(removed / seconds).toBeGreaterThan(claimsPerSecond);
      expect(ratio).toBeLessThan(worst);
    });
});
