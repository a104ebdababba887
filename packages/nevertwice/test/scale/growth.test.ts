/** Tests that a store with very many keys is as fast as one with few. */
import { describe, expect, test } from "vitest";
import { count, medianOf, ms, report } from "./figures.ts";
import { fill } from "./filling.ts";
import { claimOneByOne } from "./load.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, SQLITE } from "./subjects.ts";

const CLAIMS = 100;

describe("a claim takes as long among many live keys as among few", () => {
  const { few, many, windows, worst } = sizeOf("growth");
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const [small, large] = await Promise.all(
        [few, many].map(async (records) => {
          const url = await subject.create(context);
          const store = await openSubject(context, url);
          await fill({ store, url, records, isExpired: false });
          await claimOneByOne(store, CLAIMS);
          return { store, took: [] as number[] };
        }),
      );
      if (small === undefined || large === undefined) throw new Error("two stores are compared");
      // In turns, so that other load on the machine affects both equally.
      for (let window = 0; window < windows; window++)
        for (const { store, took } of [small, large]) took.push(...(await claimOneByOne(store, CLAIMS)));

      const ratio = medianOf(large.took) / medianOf(small.took);
      await report(large.store, {
        trial: "Many live keys",
        figures: `a claim takes ${ms(medianOf(small.took))} among ${count(few)} keys and ${ms(medianOf(large.took))} among ${count(many)} (median of ${count(large.took.length)}): ${ratio.toFixed(2)} times`,
      });
      expect(ratio).toBeLessThan(worst);
    });
});
