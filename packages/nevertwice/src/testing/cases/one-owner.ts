/** One token at a time owns a key, however many claim it at once. */
import { between, expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { type CaseWork, LONG_MS, SHORT_MS, tally } from "./work.ts";

const claimAtOnce = (work: CaseWork, count: number) =>
  Promise.all(Array.from({ length: count }, () => work.attempt().claim()));

export const oneOwner: GuaranteeCases = {
  "a key without a record goes to the first token that claims it": {
    why: "The first attempt must know that it is the first: nothing ran before it, and nothing is unknown.",
    async check({ work }) {
      const first = await work.attempt().claim();
      expect("the first claim", first, { status: "new", number: 1, tookOver: false });
    },
  },
  "of two hundred claims at once one is new and the others are pending": {
    why: "Two owners would run the work twice, which is what a store has to prevent.",
    async check({ work }) {
      const answers = await claimAtOnce(work, 200);
      expect("two hundred claims by as many tokens", tally(answers), { new: 1, pending: 199 });
    },
  },
  "of fifty claims of a released key at once one is new": {
    why: "All waiters claim a released key at once, and only one of them may run the work.",
    async check({ work }) {
      await (await work.begin()).abandon("released");
      expect("fifty claims by as many tokens", tally(await claimAtOnce(work, 50)), { new: 1, pending: 49 });
    },
  },
  "of fifty claims of an expired key at once one is new": {
    why: "A record that has expired and was not purged must be replaced in one step, not read and then replaced.",
    async check({ work, outlast }) {
      await (await work.begin()).complete(undefined, SHORT_MS);
      await outlast(SHORT_MS);
      expect("fifty claims by as many tokens", tally(await claimAtOnce(work, 50)), { new: 1, pending: 49 });
    },
  },
  "a key whose lease runs is refused however often it is asked for": {
    why: "A store that grants the key after some tries gives it a second owner.",
    async check({ work }) {
      await work.begin();
      for (let i = 1; i <= 20; i++) {
        expect(`claim ${i} by another token`, await work.attempt().claim(), { status: "pending" });
      }
    },
  },
  "a claim that is refused changes nothing of the owner's record": {
    why: "The record belongs to the owner, so a refused duplicate must not change it.",
    async check({ work }) {
      await work.begin();
      const { token, fence, number, hold, claimedAt } = await work.record();
      await work.attempt().claim({ hold: true, retentionMs: 2 * LONG_MS });
      expect("the record", await work.record(), { token, fence, number, hold, claimedAt });
    },
  },
  "a read shows who owns the key": {
    why: "After an ambiguous answer the engine reads the record to find out whether the claim is its own.",
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
    why: "An operator who erases a running key would let a second attempt start during the first.",
    async check({ work }) {
      const { fence } = await work.begin();
      expect("forget of a pending record with lease left", await work.forget(fence), false);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "reopen does not take a key from its owner": {
    needs: ["forget"],
    why: "The work is still running, so a second attempt would run it twice.",
    async check({ work }) {
      const { fence } = await work.begin();
      expect("reopen of a pending record with lease left", await work.reopen(fence), false);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
};
