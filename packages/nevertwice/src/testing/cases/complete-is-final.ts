/** Once stored, an outcome answers every claim. Only an explicit reopen makes the key free again. */
import { decodeOutcome } from "../../core/outcome.ts";
import { between, expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases } from "./trial.ts";
import { DONE, EVERY_AS } from "./work.ts";

export const completeIsFinal: GuaranteeCases = {
  "what its owner completed reads as completed": {
    why: "After an ambiguous answer the engine reads, and must find its own outcome.",
    async check({ work }) {
      const owner = await work.begin();
      expect("complete by the owner", await owner.complete(), true);
      const record = await work.record();
      expect("the record", record, { state: "completed", token: owner.token, outcome: DONE, leaseLeftMs: 0 });
      const atLeast = between(record.claimedAt, Number.MAX_SAFE_INTEGER);
      expect("when it was completed", record.completedAt, atLeast);
    },
  },
  "a completed key answers everyone who asks with its outcome": {
    why: "A replay is not used up: the last duplicate gets what the first one got.",
    async check({ work }) {
      await (await work.begin()).complete();
      for (let i = 1; i <= 10; i++) {
        const answer = await work.attempt().claim();
        expect(`claim ${i} by another token`, answer, { status: "completed", outcome: DONE });
      }
    },
  },
  "a completed key answers the token that completed it": {
    why: "A late duplicate of its own claim must not start the work again.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      expect("the owner's claim", await owner.claim(), { status: "completed", outcome: DONE });
    },
  },
  "a completed key answers a claim that holds": {
    why: "There is nothing to hold back: the outcome is known.",
    async check({ work }) {
      await (await work.begin()).complete();
      expect("a claim with hold", await work.attempt().claim({ hold: true }), { status: "completed" });
    },
  },
  "a completed key answers a takeover by its fence": {
    why: "The decision comes too late, and the operator who makes it must see the outcome instead of overwriting it.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      const answer = await work.attempt().claim({ takeover: owner.fence });
      expect("a claim with takeover", answer, { status: "completed", outcome: DONE });
    },
  },
  "a held attempt that completes is decided": {
    why: "A hold waits for the outcome of the work, and here it is.",
    async check({ work }) {
      await (await work.begin({ hold: true })).complete();
      expect("another token's claim", await work.attempt().claim(), { status: "completed" });
    },
  },
  "a completed key is not renewed": {
    why: "A renewal still on the way would reopen the key, or lengthen its retention.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      const { keptUntil } = await work.record();
      expect("renew by its owner", await owner.renew(), false);
      expect("the record", await work.record(), { state: "completed", keptUntil });
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as): [string, GuaranteeCase] => [
      `a completed key is not abandoned as ${as}`,
      {
        why: "An abandon that was sent before the completion and arrives after it must not remove the outcome.",
        async check({ work }) {
          const owner = await work.begin();
          await owner.complete();
          expect(`abandon as ${as} by its owner`, await owner.abandon(as), false);
          expect("the record", await work.record(), { state: "completed", outcome: DONE });
        },
      },
    ]),
  ),
  "a forgotten outcome still counts as done": {
    needs: ["forget"],
    why: "Erasing an outcome must not lead to a second charge of the card.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      expect("forget of a completed record", await work.forget(owner.fence), true);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "completed" });
      const { outcome } = answer as { outcome: string };
      expect("what is left of it", decodeOutcome(outcome), { kind: "not-kept", reason: "forgotten" });
    },
  },
  "a forgotten record shows no parts": {
    needs: ["forget"],
    why: "Scope and key name a person and an action, so an erasure has to remove them.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      await work.forget(owner.fence);
      expect("the record", await work.record(), { state: "completed", parts: undefined });
    },
  },
  "reopen frees a completed key": {
    needs: ["forget"],
    why: "A caller that takes a mark back wants the work to run again, and the first run must not prevent it.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      const { keptUntil } = await work.record();
      expect("reopen of a completed record", await work.reopen(owner.fence), true);
      const left = { state: "released", completedAt: undefined, outcome: undefined, keptUntil };
      expect("the record", await work.record(), left);
      expect("another token's claim", await work.attempt().claim(), { status: "new" });
    },
  },
  "reopen frees a key whose outcome was forgotten": {
    needs: ["forget"],
    why: "The marker that an erasure leaves has a fence, too, and would keep the work from running again.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      await work.forget(owner.fence);
      expect("reopen of a forgotten outcome", await work.reopen(owner.fence), true);
      expect("another token's claim", await work.attempt().claim(), { status: "new" });
    },
  },
  "reopen by another fence changes nothing": {
    needs: ["forget"],
    why: "The work has run again since the operator read the record, so this outcome belongs to another attempt.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      expect("reopen by a fence that is not there", await work.reopen(owner.fence - 1), false);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "completed", outcome: DONE });
    },
  },
};
