/** A completion whose reply was lost is sent again. Whatever the repeat carries, the first outcome stays. */
import { expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { DONE, RETENTION_MS, SHORT_MS } from "./work.ts";

const OTHERWISE = "otherwise";

export const completeTwiceIsOnce: GuaranteeCases = {
  "a repeated complete is true": {
    why: "The answer false would make the owner believe that it lost its lease.",
    async check({ work }) {
      const owner = await work.begin();
      expect("complete", await owner.complete(), true);
      expect("complete repeated", await owner.complete(), true);
    },
  },
  "a repeated complete keeps the first outcome": {
    why: "A caller may have received the first outcome already.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete(DONE);
      await owner.complete(OTHERWISE);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "completed", outcome: DONE });
    },
  },
  "a repeated complete keeps the first retention": {
    why: "Nothing changes means that the deadline does not change either.",
    async check({ work, pass }) {
      const owner = await work.begin();
      await owner.complete(DONE, RETENTION_MS);
      const { keptUntil } = await work.record();
      await pass(SHORT_MS);
      await owner.complete(DONE, 2 * RETENTION_MS);
      expect("the record", await work.record(), { keptUntil });
    },
  },
  "a repeated complete keeps the time of the first": {
    why: "The record says when the work was done, not when the completion was last repeated.",
    async check({ work, pass }) {
      const owner = await work.begin();
      await owner.complete();
      const { completedAt } = await work.record();
      await pass(SHORT_MS);
      await owner.complete();
      expect("the record", await work.record(), { completedAt });
    },
  },
  "of many completes at once one outcome stands from the first answer on": {
    why: "A store that reads and writes in two steps would let each completion overwrite the one before.",
    async check({ work }) {
      const owner = await work.begin();
      const outcomes = Array.from({ length: 20 }, (_, i) => `outcome ${i}`);
      const seen = await Promise.all(
        outcomes.map(async (outcome) => {
          expect("complete", await owner.complete(outcome), true);
          return (await work.record()).outcome;
        }),
      );
      for (const outcome of seen) expect("the outcome read after each complete", outcome, seen[0]);
    },
  },
  "a repeated complete does not bring back what was forgotten": {
    needs: ["forget"],
    why: "A repeat still on the way would undo the erasure.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      await work.forget(owner.fence);
      const { outcome } = await work.record();
      expect("complete repeated", await owner.complete(), true);
      expect("the record", await work.record(), { outcome });
    },
  },
};
