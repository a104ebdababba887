/** A later attempt has a higher fence than every earlier one, so that other systems can refuse a late writer. */
import { above, expect, matcher } from "./expect.ts";
import type { GuaranteeCases, Trial } from "./trial.ts";
import { DONE, RETENTION_MS, SHORT_MS } from "./work.ts";

/** The ways in which a record ends, after which the key is claimed again. Its fence must still grow. */
async function claimAgainAfter(trial: Trial, end: (fence: number) => Promise<void>): Promise<void> {
  const owner = await trial.work.begin();
  await owner.complete(DONE, SHORT_MS);
  await end(owner.fence);
  const answer = await trial.work.attempt().claim();
  expect("the next claim", answer, { status: "new", fence: above(owner.fence) });
}

export const fenceGrows: GuaranteeCases = {
  "a fence is a whole number that JavaScript holds exactly": {
    why: "A rounded fence equals the next one, and a late writer would pass as the owner.",
    async check({ work }) {
      const exact = matcher("a safe integer above 0", (n) => Number.isSafeInteger(n) && (n as number) > 0);
      expect("the first claim", await work.attempt().claim(), { status: "new", fence: exact });
    },
  },
  "a fence is not below the store's clock in microseconds": {
    why: "A store that lost its records, or was restored, must not give out fences that it gave before.",
    async check({ work }) {
      const { fence } = await work.begin();
      const { claimedAt } = await work.record();
      expect("the fence", fence, above((claimedAt - 1_000) * 1_000));
    },
  },
  "the fence that is read is the one that was given": {
    why: "Operators decide by the fence they saw; a rounded one decides nothing.",
    async check({ work }) {
      const { fence } = await work.begin();
      expect("the record", await work.record(), { fence });
    },
  },
  "a fence grows each time a released key is claimed": {
    why: "The attempt that released the key may have sent writes that must be refused from now on.",
    async check({ work }) {
      let last = 0;
      for (let i = 1; i <= 5; i++) {
        const attempt = await work.begin();
        expect(`the fence of claim ${i}`, attempt.fence, above(last));
        last = attempt.fence;
        await attempt.abandon("released");
      }
    },
  },
  "a fence grows each time a lapsed key is taken over": {
    why: "The attempt that lapsed may still be running, and only the fence tells its writes from its successor's.",
    async check({ work }) {
      let last = 0;
      for (let i = 1; i <= 5; i++) {
        const attempt = await work.begin();
        expect(`the fence of claim ${i}`, attempt.fence, above(last));
        last = attempt.fence;
        await attempt.abandon("unknown");
      }
    },
  },
  "a fence grows past retention": {
    why: "An attempt that was paused before the record expired may continue after the key was claimed again.",
    check: (trial) => claimAgainAfter(trial, () => trial.outlast(SHORT_MS)),
  },
  "a fence grows past retention and purge": {
    why: "The last fence is gone with the record, so the clock has to provide a higher one.",
    check: (trial) =>
      claimAgainAfter(trial, async () => {
        await trial.outlast(SHORT_MS);
        for (let bites = 0; bites < 100; bites++) if (!(await trial.store.purge(1_000)).more) break;
      }),
  },
  "a fence grows over a record that was forgotten": {
    needs: ["forget"],
    why: "Erasing a record does not stop an attempt that may still be running.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await work.forget(owner.fence);
      const answer = await work.attempt().claim();
      expect("the next claim", answer, { status: "new", fence: above(owner.fence) });
    },
  },
  "a fence grows over a record that was reopened": {
    needs: ["forget"],
    why: "Writes that an attempt sent before the key was reopened must not pass as the new attempt's.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      await work.reopen(owner.fence);
      const answer = await work.attempt().claim();
      expect("the next claim", answer, { status: "new", fence: above(owner.fence) });
    },
  },
  "a fence grows though the clock went back": {
    needs: ["clock"],
    why: "As long as the record is kept, its last fence is known, whatever the clock says.",
    async check({ work, turnBack }) {
      const owner = await work.begin();
      await owner.abandon("released");
      await turnBack(RETENTION_MS);
      const answer = await work.attempt().claim();
      expect("the next claim", answer, { status: "new", fence: above(owner.fence) });
    },
  },
};
