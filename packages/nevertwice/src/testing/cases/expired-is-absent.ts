/** A record past its retention is absent, purged or not. A lapsed record is not absent: its outcome is unknown. */
import { expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases, Trial } from "./trial.ts";
import { type BegunAttempt, DONE, EVERY_AS, SHORT_MS } from "./work.ts";

/** The ways in which a record gets past its retention. Each returns the attempt that owned it. */
const ENDS: Readonly<Record<string, (trial: Trial) => Promise<BegunAttempt>>> = {
  completed: async ({ work, outlast }) => {
    const owner = await work.begin();
    await owner.complete(DONE, SHORT_MS);
    await outlast(SHORT_MS);
    return owner;
  },
  released: async ({ work, outlast }) => {
    const owner = await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS });
    await owner.abandon("released");
    await outlast(2 * SHORT_MS);
    return owner;
  },
  lapsed: async ({ work, outlast }) => {
    const owner = await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS });
    await outlast(2 * SHORT_MS);
    return owner;
  },
};

const expiredCases = ([state, expired]: [string, (trial: Trial) => Promise<BegunAttempt>]): [
  string,
  GuaranteeCase,
][] => [
  [
    `a ${state} record past its time is not read`,
    {
      why: "An engine that settles an ambiguous answer by reading must not settle it by a record that no longer counts.",
      async check(trial) {
        await expired(trial);
        expect("the record", await trial.work.read(), undefined);
      },
    },
  ],
  [
    `a ${state} record past its time takes no step of its token`,
    {
      why: "A record that others may already have seen as absent must not come back to life.",
      async check(trial) {
        const owner = await expired(trial);
        expect("complete", await owner.complete(), false);
        expect("renew", await owner.renew(), false);
        for (const as of EVERY_AS) expect(`abandon as ${as}`, await owner.abandon(as), false);
      },
    },
  ],
  [
    `a ${state} record past its time leaves nothing to the next`,
    {
      why: "The key starts again: nothing was taken over, and nothing is unknown.",
      async check(trial) {
        await expired(trial);
        const answer = await trial.work.attempt().claim();
        expect("another token's claim", answer, { status: "new", tookOver: false });
        expect("the record", await trial.work.record(), {
          state: "pending",
          completedAt: undefined,
          outcome: undefined,
        });
      },
    },
  ],
];

export const expiredIsAbsent: GuaranteeCases = {
  ...Object.fromEntries(Object.entries(ENDS).flatMap(expiredCases)),
  "past its time a key is new even to the token that had it": {
    why: "The claim that it would repeat is gone, with its fence.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS });
      await outlast(2 * SHORT_MS);
      const answer = await owner.claim();
      expect("the claim by the same token", answer, { status: "new" });
      expect("whether its fence is the old one", (answer as { fence: number }).fence === owner.fence, false);
    },
  },
  "past its time a key is not there to be taken over": {
    why: "The record that the decision is about is gone, and the takeover must not start the work again.",
    async check({ work, outlast }) {
      const { fence } = await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS });
      await outlast(2 * SHORT_MS);
      const answer = await work.attempt().claim({ takeover: fence });
      expect("a claim with takeover", answer, { status: "pending", leaseLeftMs: 0 });
      expect("the record", await work.read(), undefined);
    },
  },
  "past its time a record is not there to be forgotten": {
    needs: ["forget"],
    why: "The answer true would mean that a record was erased just now.",
    async check({ work, outlast }) {
      const owner = await work.begin();
      await owner.complete(DONE, SHORT_MS);
      await outlast(SHORT_MS);
      expect("forget", await work.forget(owner.fence), false);
    },
  },
  "past its time a record is not listed": {
    needs: ["list"],
    why: "An operator would act on a record that no claim finds.",
    async check({ store, another, outlast }) {
      const work = another({ namespace: `nevertwice-cases ${crypto.randomUUID()}` });
      await (await work.begin()).complete(DONE, SHORT_MS);
      await outlast(SHORT_MS);
      const page = await store.list?.({ namespace: work.parts.namespace, limit: 10 });
      expect("the records listed", page?.records, []);
    },
  },
  "a lapsed record is not absent": {
    why: "Treated as absent, it would lose its number and the fact that an outcome is unknown.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "new", number: 2, tookOver: true });
    },
  },
  "a lapsed record that is forgotten is absent": {
    needs: ["forget"],
    why: "The operator who erases it accepts that its outcome is unknown.",
    async check({ work, outlast }) {
      const { fence } = await work.begin({ leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      expect("forget of a lapsed record", await work.forget(fence), true);
      expect("the record", await work.read(), undefined);
    },
  },
  "a released record that is forgotten is absent": {
    needs: ["forget"],
    why: "It has no outcome to leave a marker for.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("released");
      expect("forget of a released record", await work.forget(owner.fence), true);
      expect("the record", await work.read(), undefined);
    },
  },
  "what was never there is not forgotten": {
    needs: ["forget"],
    why: "The answer true would mean that a record was erased.",
    async check({ work }) {
      expect("forget of an absent record", await work.forget(1), false);
    },
  },
};
