/** An outcome answers, and a fence is kept, for as long as the caller asked for and no longer. */
import { about, expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { DONE, LONG_MS, RETENTION_MS, SHORT_MS } from "./work.ts";

const DAY_MS = 86_400_000;
/** Stores keep times to the millisecond, or a little coarser. */
const ROUNDED_MS = 1_000;

export const retentionEnds: GuaranteeCases = {
  "a completed key answers until its retention ends": {
    why: "A retry within the retention must not run the work again.",
    async check({ work, skipAhead }) {
      await (await work.begin()).complete();
      await skipAhead(RETENTION_MS / 2);
      expect("another token's claim", await work.attempt().claim(), { status: "completed", outcome: DONE });
    },
  },
  "a completed key is free from the moment its retention ends": {
    why: "The key may be used again, and its attempts are counted from 1.",
    async check({ work, pass }) {
      await (await work.begin()).complete(DONE, SHORT_MS);
      await pass(SHORT_MS);
      const answer = await work.attempt().claim();
      expect("a claim at the retention's end", answer, { status: "new", number: 1 });
    },
  },
  "retention counts from the completion": {
    why: "Work that took an hour would otherwise be forgotten an hour too soon.",
    async check({ work, skipAhead }) {
      const owner = await work.begin();
      await skipAhead(LONG_MS / 2);
      await owner.complete();
      const { keptUntil, completedAt } = await work.record();
      expect("how long it is kept", keptUntil - Number(completedAt), about(RETENTION_MS, ROUNDED_MS));
    },
  },
  "the retention that counts is the one of the completion": {
    why: "How long an outcome is kept may depend on the outcome.",
    async check({ work }) {
      await (await work.begin()).complete(DONE, 2 * RETENTION_MS);
      const { keptUntil, completedAt } = await work.record();
      expect("how long it is kept", keptUntil - Number(completedAt), about(2 * RETENTION_MS, ROUNDED_MS));
    },
  },
  "a retention of 400 days is kept": {
    why: "Thirteen months of milliseconds overflow what fits 32 bits, and some time-to-live settings.",
    async check({ work, skipAhead }) {
      await (await work.begin()).complete(DONE, 400 * DAY_MS);
      const { keptUntil, completedAt } = await work.record();
      expect("how long it is kept", keptUntil - Number(completedAt), about(400 * DAY_MS, ROUNDED_MS));
      await skipAhead(399 * DAY_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "completed" });
    },
  },
  "asking for an outcome does not lengthen its retention": {
    why: "A client that keeps polling would keep the record for ever.",
    async check({ work, pass }) {
      await (await work.begin()).complete();
      const { keptUntil } = await work.record();
      await pass(SHORT_MS);
      await work.attempt().claim();
      expect("the record after a replay", await work.record(), { keptUntil });
    },
  },
  "a released key is kept for its retention past the lease that it had": {
    why: "Its fence and number must be kept longer than any write of the attempt may be delayed.",
    async check({ work }) {
      await (await work.begin()).abandon("released");
      const { keptUntil, claimedAt } = await work.record();
      expect("how long it is kept", keptUntil - claimedAt, about(LONG_MS + RETENTION_MS, ROUNDED_MS));
    },
  },
  "a lapsed key is kept for its retention past its lease": {
    why: "An unknown outcome must not be forgotten early.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const { keptUntil, claimedAt } = await work.record();
      expect("how long it is kept", keptUntil - claimedAt, about(SHORT_MS + RETENTION_MS, ROUNDED_MS));
    },
  },
  "a renewed key is kept for its retention past the renewed lease": {
    why: "Retention is counted from the lease's end, and the end has moved.",
    async check({ work }) {
      const owner = await work.begin();
      const before = (await work.record()).keptUntil;
      await owner.renew(10 * LONG_MS);
      const { keptUntil } = await work.record();
      expect("how much longer it is kept", keptUntil - before, about(9 * LONG_MS, LONG_MS));
    },
  },
  "past its retention a released key starts at number 1": {
    why: "Attempts are counted within one life of the key.",
    async check({ work, outlast }) {
      await (await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS })).abandon("released");
      await outlast(2 * SHORT_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "new", number: 1 });
    },
  },
  "past its retention a lapsed key starts at number 1": {
    why: "Attempts are counted within one life of the key.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS });
      await outlast(2 * SHORT_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "new", number: 1 });
    },
  },
  "a held key that lapsed is kept until it is decided": {
    why: "If it were forgotten, the work would run again without a decision, which the hold forbids.",
    async check({ work, outlast }) {
      const { fence } = await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS, hold: true });
      await outlast(2 * SHORT_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "unknown", fence });
    },
  },
  "a held key that was completed ends like any other": {
    why: "The decision is made, so the record need not stay for ever.",
    async check({ work, outlast }) {
      await (await work.begin({ hold: true })).complete(DONE, SHORT_MS);
      await outlast(SHORT_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "new", number: 1 });
    },
  },
  "a forgotten outcome counts as done until its retention ends": {
    needs: ["forget"],
    why: "Retries may come until the retention ends. After that the key is free.",
    async check({ work, pass }) {
      const owner = await work.begin();
      await owner.complete();
      const { keptUntil } = await work.record();
      await pass(SHORT_MS);
      await work.forget(owner.fence);
      expect("the record", await work.record(), { keptUntil });
    },
  },
};
