/** A key that comes back with another meaning is told so, and gets neither the work nor its outcome. */
import { expect } from "./expect.ts";
import type { Cases } from "./trial.ts";
import { DONE, SHORT_MS } from "./work.ts";

const ONE = `1:${"a".repeat(64)}`;
const ANOTHER = `1:${"b".repeat(64)}`;
const NEWER_VERSION = `2:${"b".repeat(64)}`;

export const conflictWins: Cases = {
  "another fingerprint is a conflict while the key is pending": {
    why: "A client that reuses a key for other work must hear so at once, not after the wait.",
    async check({ work }) {
      await work.begin({ fingerprint: ONE });
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "another fingerprint is a conflict once the key is lapsed": {
    why: "Taking over means going on with the same work; other work must not inherit its key.",
    async check({ work, outlast }) {
      await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "another fingerprint is a conflict where the outcome was given up as unknown": {
    why: "A record that lapsed by its owner's word is as lapsed as one that ran out of lease.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).abandon("unknown");
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "another fingerprint is a conflict once the key is completed": {
    why: "Another request's outcome is the wrong answer, and may be another person's.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).complete();
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, {
        status: "conflict",
        state: "completed",
        outcome: undefined,
      });
    },
  },
  "another fingerprint is no conflict once the key is released": {
    why: "Nothing was done under the key, so a corrected request may use it.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).abandon("released");
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "new" });
    },
  },
  "a released key takes the meaning of its next claim": {
    why: "Whoever repeats the corrected request must not be compared with the one that was given up.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).abandon("released");
      await work.attempt().claim({ fingerprint: ANOTHER });
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the first fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "another fingerprint is no conflict past retention": {
    why: "A key is owed an answer for its retention and no longer; then it is anyone's.",
    async check({ work, outlast }) {
      await (await work.begin({ fingerprint: ONE })).complete(DONE, SHORT_MS);
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "new" });
    },
  },
  "the same fingerprint waits for a pending key": {
    why: "A retry is the ordinary case, and must not be called a misuse.",
    async check({ work }) {
      await work.begin({ fingerprint: ONE });
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the same fingerprint", answer, { status: "pending" });
    },
  },
  "the same fingerprint gets the outcome of a completed key": {
    why: "A retry is the ordinary case, and must get its answer.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).complete();
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the same fingerprint", answer, { status: "completed", outcome: DONE });
    },
  },
  "a record without a fingerprint is compared with none": {
    why: "Where the first side said nothing of its meaning, nothing proves that the second means something else.",
    async check({ work }) {
      await (await work.begin()).complete();
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with a fingerprint", answer, { status: "completed" });
    },
  },
  "a claim without a fingerprint is compared with none": {
    why: "Where the second side says nothing of its meaning, nothing proves that it means something else.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).complete();
      expect("a claim without a fingerprint", await work.attempt().claim(), { status: "completed" });
    },
  },
  "fingerprints of different versions are not compared": {
    why: "Two versions of the library share a store while one replaces the other, and digest differently.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).complete();
      const answer = await work.attempt().claim({ fingerprint: NEWER_VERSION });
      expect("a claim with a fingerprint of another version", answer, { status: "completed" });
    },
  },
  "conflict beats unknown": {
    why: "A held record waits for a decision about its own work, which no other request is owed news of.",
    async check({ work, outlast }) {
      await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "conflict beats takeover": {
    why: "The right fence with the wrong meaning decides about work that the decider did not look at.",
    async check({ work, outlast }) {
      const { fence } = await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER, takeover: fence });
      expect("a takeover with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "conflict beats the repeat of one's own claim": {
    why: "A repeat says the same as the claim it repeats; one that does not is no repeat.",
    async check({ work }) {
      const owner = await work.begin({ fingerprint: ONE });
      const answer = await owner.claim({ fingerprint: ANOTHER });
      expect("the owner's claim with another fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "conflict beats the outcome even for the token that completed it": {
    why: "The outcome belongs to the meaning it was made for, whoever asks.",
    async check({ work }) {
      const owner = await work.begin({ fingerprint: ONE });
      await owner.complete();
      const answer = await owner.claim({ fingerprint: ANOTHER });
      expect("the owner's claim with another fingerprint", answer, {
        status: "conflict",
        state: "completed",
      });
    },
  },
  "a conflict changes nothing": {
    why: "A wrong request must not turn the right one, when it is repeated, into the wrong one.",
    async check({ work }) {
      await work.begin({ fingerprint: ONE });
      await work.attempt().claim({ fingerprint: ANOTHER });
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the first fingerprint, after the conflict", answer, { status: "pending" });
    },
  },
  "a takeover without a fingerprint goes on with the one before": {
    why: "An operator or a reconciler decides about the same work, and does not wipe out what it meant.",
    async check({ work, outlast }) {
      await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await work.begin();
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "a forgotten record has no fingerprint to compare": {
    needs: ["forget"],
    why: "A digest of what somebody asked for is part of what they want erased.",
    async check({ work }) {
      const owner = await work.begin({ fingerprint: ONE });
      await owner.complete();
      await work.forget(owner.fence);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "completed" });
    },
  },
};
