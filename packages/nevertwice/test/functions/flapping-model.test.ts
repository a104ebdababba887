/** Tests the window against the simplest model of the rule: keep every change for ever, and count on every check. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { createFlapping } from "../../src/functions/flapping.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";

type Step =
  | { readonly do: "check"; readonly parameter: string; readonly value: number }
  | { readonly do: "advance"; readonly ms: number }
  | { readonly do: "clear"; readonly parameter: string | undefined };

const parameter = fc.constantFrom("a", "b", "c");
/** Close enough to each other that some pairs are similar and some are just not similar. */
const value = fc.oneof(
  fc.constantFrom(0, -0, 10, 10.05, 10.1, 10.2, 9.9, -10, 100, 101, 102, 5e-324, 1e308),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("check" as const), parameter, value }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("advance" as const), ms: fc.nat(60) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("clear" as const),
      parameter: fc.option(parameter, { nil: undefined }),
    }),
  },
);

interface Change {
  parameter: string;
  value: number;
  endsAt: number;
}

/** The difference relative to the larger of the two, written independently; zero is similar only to zero. */
function alike(a: number, b: number, similarity: number): boolean {
  if (a === 0 || b === 0) return a === 0 && b === 0;
  const larger = Math.abs(a) > Math.abs(b) ? Math.abs(a) : Math.abs(b);
  return Math.abs(a - b) / larger <= similarity;
}

test("any history of changes gets the same verdicts as from a model that forgets nothing", async () => {
  const rule = fc.record({
    windowMs: fc.integer({ min: 1, max: 100 }),
    similarity: fc.constantFrom(0.001, 0.01, 0.1, 0.5),
    maxChanges: fc.integer({ min: 1, max: 4 }),
  });
  const property = fc.asyncProperty(rule, fc.array(step, { maxLength: 60 }), async (given, steps) => {
    const clock = manualClock(0);
    const { check, clear } = createFlapping({ ...given, clock });
    let passed: Change[] = [];
    let now = 0;
    for (const each of steps) {
      if (each.do === "advance") {
        now += each.ms;
        clock.advance(each.ms);
      } else if (each.do === "clear") {
        passed = passed.filter(
          (change) => each.parameter !== undefined && change.parameter !== each.parameter,
        );
        await clear(each.parameter);
      } else {
        const similar = passed.filter(
          (change) =>
            change.parameter === each.parameter &&
            now < change.endsAt &&
            alike(change.value, each.value, given.similarity),
        );
        const verdict = await check(each.parameter, each.value);
        expect(verdict.similar).toBe(similar.length);
        expect(verdict.flapping).toBe(similar.length >= given.maxChanges);
        if (verdict.flapping) expect(verdict.leftMs).toBe((similar[0]?.endsAt ?? 0) - now);
        else passed.push({ ...each, endsAt: now + given.windowMs });
      }
    }
  });
  await fc.assert(property, { numRuns: 300 });
});
