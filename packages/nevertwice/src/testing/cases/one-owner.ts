/** One token at a time owns a key, however many ask for it at once. */
import { between, expect } from "./expect.ts";
import type { Cases } from "./trial.ts";
import { LONG_MS, SHORT_MS, tally, type Work } from "./work.ts";

const claimAtOnce = (work: Work, count: number) =>
  Promise.all(Array.from({ length: count }, () => work.attempt().claim()));

export const oneOwner: Cases = {
  "a key that nobody has goes to the first who claims it": {
    why: "The first attempt must know that it is the first: nothing ran before it, and nothing is unknown.",
    async check({ work }) {
      const first = await work.attempt().claim();
      expect("the first claim", first, { status: "new", number: 1, tookOver: false });
    },
  },
  "of two hundred claims at once one is new and the others are pending": {
    why: "Two owners run the work twice: this is what the store is for.",
    async check({ work }) {
      const answers = await claimAtOnce(work, 200);
      expect("two hundred claims by as many tokens", tally(answers), { new: 1, pending: 199 });
    },
  },
  "of fifty claims of a released key at once one is new": {
    why: "A key that was given up draws all who waited for it, and only one of them may run the work.",
    async check({ work }) {
      await (await work.begin()).abandon("released");
      expect("fifty claims by as many tokens", tally(await claimAtOnce(work, 50)), { new: 1, pending: 49 });
    },
  },
  "of fifty claims of an expired key at once one is new": {
    why: "A record that is past its time but still there must be replaced in one step, not seen and then replaced.",
    async check({ work, outlast }) {
      await (await work.begin()).complete(undefined, SHORT_MS);
      await outlast(SHORT_MS);
      expect("fifty claims by as many tokens", tally(await claimAtOnce(work, 50)), { new: 1, pending: 49 });
    },
  },
  "a key whose lease runs is refused however often it is asked for": {
    why: "A store that gives in after some tries gives a second owner the key.",
    async check({ work }) {
      await work.begin();
      for (let i = 1; i <= 20; i++) {
        expect(`claim ${i} by another token`, await work.attempt().claim(), { status: "pending" });
      }
    },
  },
  "a claim that is refused changes nothing of the owner's record": {
    why: "What the owner wrote is the owner's: a duplicate that only asked must leave no trace.",
    async check({ work }) {
      await work.begin();
      const { token, fence, number, hold, claimedAt } = await work.record();
      await work.attempt().claim({ hold: true, retentionMs: 2 * LONG_MS });
      expect("the record", await work.record(), { token, fence, number, hold, claimedAt });
    },
  },
  "a read shows who owns the key": {
    why: "After an ambiguous answer the engine reads, and settles by what it sees whether the claim is its own.",
    async check({ work }) {
      const { token } = await work.begin({ hold: true });
      expect("the record", await work.record(), {
        id: work.id,
        parts: work.parts,
        state: "pending",
        token,
        number: 1,
        hold: true,
        leaseLeftMs: between(1, LONG_MS),
        completedAt: undefined,
        outcome: undefined,
      });
    },
  },
  "forget does not take a key from its owner": {
    needs: ["forget"],
    why: "An operator who erases a running key lets a second attempt start beside the first.",
    async check({ work }) {
      const { fence } = await work.begin();
      expect("forget of a pending record with lease left", await work.forget(fence), false);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "reopen does not take a key from its owner": {
    needs: ["forget"],
    why: "Work that is under way is not done: whoever has it done again meanwhile has it done twice.",
    async check({ work }) {
      const { fence } = await work.begin();
      expect("reopen of a pending record with lease left", await work.reopen(fence), false);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
};
