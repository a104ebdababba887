/** A claim whose fingerprint differs from the record's is a conflict, and gets neither the key nor its outcome. */
import { expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { DONE, SHORT_MS } from "./work.ts";

const ONE = `1:${"a".repeat(64)}`;
const ANOTHER = `1:${"b".repeat(64)}`;
const NEWER_VERSION = `2:${"b".repeat(64)}`;

export const conflictWins: GuaranteeCases = {
  "another fingerprint is a conflict while the key is pending": {
    why: "A client that reuses a key for other work must get the conflict at once, not after waiting.",
    async check({ work }) {
      await work.begin({ fingerprint: ONE });
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "another fingerprint is a conflict once the key is lapsed": {
    why: "A takeover continues the same work; other work must not get its key.",
    async check({ work, outlast }) {
      await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "another fingerprint is a conflict where the outcome was given up as unknown": {
    why: "A record that its owner abandoned as unknown is as lapsed as one whose lease has ended.",
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
    why: "A retry of the corrected request must not be compared with the request that was released.",
    async check({ work }) {
      await (await work.begin({ fingerprint: ONE })).abandon("released");
      await work.attempt().claim({ fingerprint: ANOTHER });
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the first fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "another fingerprint is no conflict past retention": {
    why: "A key answers for its retention. After that any request may use it.",
    async check({ work, outlast }) {
      await (await work.begin({ fingerprint: ONE })).complete(DONE, SHORT_MS);
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "new" });
    },
  },
  "the same fingerprint waits for a pending key": {
    why: "A retry is the normal case, and must not be reported as a conflict.",
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
    why: "Without a fingerprint on the record, nothing proves that the claim means something else.",
    async check({ work }) {
      await (await work.begin()).complete();
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with a fingerprint", answer, { status: "completed" });
    },
  },
  "a claim without a fingerprint is compared with none": {
    why: "Without a fingerprint on the claim, nothing proves that it means something else.",
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
    why: "A held record waits for a decision about its own work, which is no business of another request.",
    async check({ work, outlast }) {
      await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "conflict beats takeover": {
    why: "A takeover with the right fence and another fingerprint decides about work that the operator did not see.",
    async check({ work, outlast }) {
      const { fence } = await work.begin({ fingerprint: ONE, leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER, takeover: fence });
      expect("a takeover with another fingerprint", answer, { status: "conflict", state: "lapsed" });
    },
  },
  "conflict beats the repeat of the token's own claim": {
    why: "A repeated claim has the fingerprint of the first. A claim with another fingerprint is not a repeat.",
    async check({ work }) {
      const owner = await work.begin({ fingerprint: ONE });
      const answer = await owner.claim({ fingerprint: ANOTHER });
      expect("the owner's claim with another fingerprint", answer, { status: "conflict", state: "pending" });
    },
  },
  "conflict beats the outcome even for the token that completed it": {
    why: "The outcome belongs to the request that it was made for, whichever token asks.",
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
    why: "A conflicting request must not make a retry of the right request a conflict.",
    async check({ work }) {
      await work.begin({ fingerprint: ONE });
      await work.attempt().claim({ fingerprint: ANOTHER });
      const answer = await work.attempt().claim({ fingerprint: ONE });
      expect("a claim with the first fingerprint, after the conflict", answer, { status: "pending" });
    },
  },
  "a takeover without a fingerprint goes on with the one before": {
    why: "An operator or a reconciler decides about the same work, so the record keeps its fingerprint.",
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
    why: "A digest of a person's request is part of what an erasure has to remove.",
    async check({ work }) {
      const owner = await work.begin({ fingerprint: ONE });
      await owner.complete();
      await work.forget(owner.fence);
      const answer = await work.attempt().claim({ fingerprint: ANOTHER });
      expect("a claim with another fingerprint", answer, { status: "completed" });
    },
  },
};
