/** Tests what the indexes of lists cost a claim. */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { dropListIndexes } from "./dropped-indexes.ts";
import { count, medianOf, report } from "./figures.ts";
import { fill } from "./filling.ts";
import { timeClaimsAtOnce } from "./load.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, SQLITE } from "./subjects.ts";

describe("the indexes of lists cost a claim little", () => {
  const { records, windows, claims, least } = sizeOf("list-indexes");
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const urls = [await subject.create(context), await subject.create(context)];
      const stores: Store[] = [];
      for (const url of urls) {
        const store = await openSubject(context, url);
        await fill({ store, url, records, isExpired: false, isVaried: true });
        await timeClaimsAtOnce(store, claims);
        stores.push(store);
      }
      await dropListIndexes(urls[1] as string);
      const took: [number[], number[]] = [[], []];
      for (let window = 0; window < windows; window++)
        for (const which of window % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const))
          took[which].push(await timeClaimsAtOnce(stores[which] as Store, claims));
      const perSecond = took.map((each) => (claims * 1_000) / medianOf(each));
      // Windows that follow each other are compared: other load on the machine affects both alike.
      const ratios = took[0]
        .map((tookMs, window) => (took[1][window] as number) / tookMs)
        .sort((a, b) => a - b);
      const at = (part: number) => ratios[Math.floor(part * (ratios.length - 1))] as number;
      const ratio = at(1 / 2);
      await report(stores[0] as Store, {
        trial: "What the indexes of lists cost a claim",
        figures: `${count(perSecond[0] as number)} claims a second with them and ${count(perSecond[1] as number)} without, among ${count(records)} keys (medians of ${count(windows)} windows of ${count(claims)} claims at once): ${ratio.toFixed(2)} times, half of the windows between ${at(1 / 4).toFixed(2)} and ${at(3 / 4).toFixed(2)}`,
      });
      expect(ratio).toBeGreaterThan(least);
    });
});
