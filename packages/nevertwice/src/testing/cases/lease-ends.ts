/** A lease holds for as long as the claim asked for, neither shorter nor longer. */
import { above, between, expect } from "./expect.ts";
import { type GuaranteeCases, ROUNDING_MS } from "./trial.ts";
import { LONG_MS, SHORT_MS } from "./work.ts";

/** Longer than any lease and margin, so that the store notices a clock that was set back by it. */
const BACK_MS = 3_600_000;

export const leaseEnds: GuaranteeCases = {
  "a key is its owner's until the lease ends": {
    why: "An owner that is overtaken while its lease runs does the work at the same time as its successor.",
    async check({ work, skipAhead }) {
      await work.begin();
      await skipAhead(LONG_MS / 2);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "a key can be had from the moment its lease ends": {
    why: "A crashed owner must not block its key longer than the lease it asked for.",
    async check({ work, pass }) {
      await work.begin({ leaseMs: SHORT_MS });
      await pass(SHORT_MS);
      expect("another token's claim at the lease's end", await work.attempt().claim(), { status: "new" });
    },
  },
  "a pending answer says how much of the lease is left": {
    why: "Waiters sleep at most that long, and clients get it as the time to retry after.",
    async check({ work, skipAhead }) {
      await work.begin();
      const moved = await skipAhead(LONG_MS / 3);
      const left = between(1, LONG_MS - moved);
      expect("another token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "a pending answer says how long the attempt has run, not how long ago it renewed": {
    why: "Clients get a longer time to retry after, the longer the work runs. Otherwise they give up before it ends.",
    async check({ work, pass }) {
      const owner = await work.begin();
      await pass(SHORT_MS);
      await owner.renew();
      const elapsed = between(SHORT_MS, LONG_MS);
      expect("another token's claim", await work.attempt().claim(), {
        status: "pending",
        elapsedMs: elapsed,
      });
    },
  },
  "an attempt that takes over counts its time anew": {
    why: "The clients of the attempt that runs now would be told to wait for the time that a dead one took.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const before = Date.now();
      await work.begin();
      const answer = await work.attempt().claim();
      const elapsed = between(0, Date.now() - before + ROUNDING_MS);
      expect("a third token's claim", answer, { status: "pending", elapsedMs: elapsed });
    },
  },
  "renewing gives the lease that was asked for": {
    why: "Work that runs longer than one lease keeps its key only by renewing.",
    async check({ work }) {
      const owner = await work.begin();
      expect("renew by the owner", await owner.renew(2 * LONG_MS), true);
      const left = above(LONG_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "a renewed lease counts from the renewal": {
    why: "Counted from the claim, a later renewal would already have ended when it was written.",
    async check({ work, skipAhead }) {
      const owner = await work.begin();
      await skipAhead((LONG_MS / 3) * 2);
      await owner.renew();
      await skipAhead((LONG_MS / 3) * 2);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "a renewed lease ends too": {
    why: "The last renewal says how long a crashed owner blocks its key, even if it is shorter than the one before.",
    async check({ work, outlast }) {
      const owner = await work.begin();
      await owner.renew(SHORT_MS);
      await outlast(SHORT_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "new" });
    },
  },
  "a lease that has ended reads as lapsed": {
    why: "Operators and the engine must see that an outcome is unknown before another attempt takes over.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      expect("the record", await work.record(), { state: "lapsed", leaseLeftMs: 0 });
    },
  },
  "waiting for a key does not lengthen its lease": {
    why: "Duplicates that retry would keep the claim of a dead owner alive.",
    async check({ work, pass }) {
      await work.begin();
      const { leaseLeftMs } = await work.record();
      await pass(SHORT_MS);
      await work.attempt().claim();
      const left = between(0, leaseLeftMs - 1);
      expect("the record after another token's claim", await work.record(), { leaseLeftMs: left });
    },
  },
  "an attempt that takes over has the lease that it asked for": {
    why: "The lease belongs to the attempt, not to the key: another guard may need another one.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await work.begin();
      const left = between(SHORT_MS + 1, LONG_MS);
      expect("a third token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "a long renewal is not taken for a clock that went back": {
    why: "The deadline is far beyond the first lease because the owner asked for it.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.renew(10 * LONG_MS);
      await work.attempt().claim();
      expect("the record after another token's claim", await work.record(), { leaseLeftMs: above(LONG_MS) });
    },
  },
  "when the clock went back, the key is not handed over at once": {
    needs: ["clock"],
    why: "The owner may still be running. The store only knows that the clock is wrong.",
    async check({ work, turnBack }) {
      await work.begin();
      await turnBack(BACK_MS);
      const left = between(1, LONG_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "when the clock went back, the key can be had one lease after somebody asked": {
    needs: ["clock"],
    why: "Otherwise a crashed owner blocks its key for as long as the clock was set back.",
    async check({ work, turnBack, pass }) {
      await work.begin();
      await turnBack(BACK_MS);
      await work.attempt().claim();
      await pass(LONG_MS);
      expect("another token's claim one lease later", await work.attempt().claim(), { status: "new" });
    },
  },
  "when the clock went back, the lease that counts is the last one written": {
    needs: ["clock"],
    why: "An owner that renewed for a long time relies on that lease, and must not lose it to an earlier, shorter one.",
    async check({ work, turnBack }) {
      const owner = await work.begin();
      await owner.renew(10 * LONG_MS);
      await turnBack(BACK_MS);
      const left = between(LONG_MS + 1, 10 * LONG_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "when the clock went back, the owner may still complete": {
    needs: ["clock"],
    why: "A shortened deadline takes only time from the owner.",
    async check({ work, turnBack }) {
      const owner = await work.begin();
      await turnBack(BACK_MS);
      await work.attempt().claim();
      expect("complete by the owner", await owner.complete(), true);
    },
  },
};
