/** An abandoned claim leaves the key as its attempt says: free, or with an unknown outcome. */
import { expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases, Trial } from "./trial.ts";
import { type BegunAttempt, EVERY_AS, SHORT_MS } from "./work.ts";

/** An attempt that took over a lapsed one. */
async function successor({ work, outlast }: Trial, hold = false): Promise<BegunAttempt> {
  const { fence } = await work.begin({ leaseMs: SHORT_MS, hold });
  await outlast(SHORT_MS);
  return work.begin({ takeover: fence });
}

export const abandonFrees: GuaranteeCases = {
  "a released key is new to the next claim, which counts on": {
    why: "The next attempt may run at once, knows that it is not the first, and that no earlier outcome is unknown.",
    async check({ work }) {
      const owner = await work.begin();
      expect("abandon as released", await owner.abandon("released"), true);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "new", number: 2, tookOver: false });
    },
  },
  "a first attempt that never ran leaves its key released": {
    why: "The work never started, so its outcome is not unknown.",
    async check({ work }) {
      const owner = await work.begin();
      expect("abandon as unrun", await owner.abandon("unrun"), true);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "new", number: 2, tookOver: false });
    },
  },
  "an attempt that gives up as unknown lapses at once": {
    why: "The owner itself says that the outcome is unknown, so waiting for the lease to end would gain nothing.",
    async check({ work }) {
      const owner = await work.begin();
      expect("abandon as unknown", await owner.abandon("unknown"), true);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "new", number: 2, tookOver: true });
    },
  },
  "a released key reads as released": {
    why: "An operator who reads the record must see that no attempt is running.",
    async check({ work }) {
      await (await work.begin()).abandon("released");
      expect("the record", await work.record(), { state: "released", number: 1, leaseLeftMs: 0 });
    },
  },
  "a key given up as unknown reads as lapsed": {
    why: "An operator who reads the record must see that its outcome is unknown.",
    async check({ work }) {
      await (await work.begin()).abandon("unknown");
      expect("the record", await work.record(), { state: "lapsed", number: 1, leaseLeftMs: 0 });
    },
  },
  "a held attempt that gives up as unknown waits for a decision": {
    why: "That is what hold is for: work with an unknown outcome must not run again without a decision.",
    async check({ work }) {
      const owner = await work.begin({ hold: true });
      await owner.abandon("unknown");
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "unknown", fence: owner.fence });
    },
  },
  "a held attempt that is released frees its key": {
    why: "The attempt says that nothing happened, so there is nothing to decide.",
    async check({ work }) {
      await (await work.begin({ hold: true })).abandon("released");
      expect("another token's claim", await work.attempt().claim(), { status: "new" });
    },
  },
  "a successor that never ran leaves the key lapsed again": {
    why: "The earlier outcome is still unknown; a released record would no longer say so.",
    async check(trial) {
      expect("abandon as unrun", await (await successor(trial)).abandon("unrun"), true);
      const answer = await trial.work.attempt().claim();
      expect("another token's claim", answer, { status: "new", number: 3, tookOver: true });
    },
  },
  "a successor that repeated its claim and never ran leaves the key lapsed again": {
    why: "The record remembers that it was taken over, however often the claim was sent.",
    async check(trial) {
      const repeating = await successor(trial);
      await repeating.claim();
      await repeating.abandon("unrun");
      expect("another token's claim", await trial.work.attempt().claim(), { status: "new", tookOver: true });
    },
  },
  "a successor that releases frees the key": {
    why: "It has found out that nothing happened. This is how a lapsed key is decided.",
    async check(trial) {
      await (await successor(trial, true)).abandon("released");
      expect("another token's claim", await trial.work.attempt().claim(), { status: "new", tookOver: false });
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as): [string, GuaranteeCase] => [
      `a repeated abandon as ${as} is true and changes nothing`,
      {
        why: "An abandon whose reply was lost is repeated until it is answered.",
        async check({ work }) {
          const owner = await work.begin();
          await owner.abandon(as);
          const { state, fence } = await work.record();
          expect(`abandon as ${as}, repeated`, await owner.abandon(as), true);
          expect("the record", await work.record(), { state, fence });
        },
      },
    ]),
  ),
  "a released key stays released whatever its token abandons it as later": {
    why: "Another caller may have seen already that the key is free.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("released");
      for (const as of EVERY_AS) {
        expect(`abandon as ${as}, later`, await owner.abandon(as), true);
        expect("the record", await work.record(), { state: "released" });
      }
    },
  },
};
