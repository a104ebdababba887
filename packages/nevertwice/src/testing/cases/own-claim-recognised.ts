/** A token that repeats its own claim gets it again, even if a reply was lost or the lease has ended. */
import { above, expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { DONE, EVERY_AS, LONG_MS, SHORT_MS } from "./work.ts";

export const ownClaimRecognised: GuaranteeCases = {
  "a repeated claim is new again, with the same fence and number": {
    why: "A claim whose reply was lost is repeated. Treated as another token's, it would wait for itself.",
    async check({ work }) {
      const owner = await work.begin();
      const { fence, number } = owner;
      expect("the repeated claim", await owner.claim(), { status: "new", fence, number, tookOver: false });
    },
  },
  "a claim sent twice at once owns the key once": {
    why: "A call that timed out is repeated while its first sending may still be on the way.",
    async check({ work }) {
      const attempt = work.attempt();
      const [one, other] = await Promise.all([attempt.claim(), attempt.claim()]);
      expect("the first answer", one, { status: "new" });
      const { fence } = one as { fence: number };
      expect("the second answer", other, { status: "new", fence });
    },
  },
  "a repeated claim restarts the lease": {
    why: "The caller counts its lease from the claim that was answered, and so must the store.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.claim({ leaseMs: 2 * LONG_MS });
      const left = above(LONG_MS);
      expect("another token's claim", await work.attempt().claim(), { status: "pending", leaseLeftMs: left });
    },
  },
  "a lapsed attempt that claims again goes on with its fence and number": {
    why: "No other attempt took over, so nothing was lost. A new fence would make other systems refuse its writes.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const { fence, number } = owner;
      expect("the repeated claim", await owner.claim(), { status: "new", fence, number, tookOver: false });
    },
  },
  "a lapsed attempt that claims again has a lease again": {
    why: "The attempt owns the key again, so no other may.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await owner.claim();
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "a held attempt that lapsed may claim again": {
    why: "A hold keeps other attempts from the key, never its own.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      expect("the repeated claim", await owner.claim({ hold: true }), { status: "new", fence: owner.fence });
    },
  },
  "a lapsed attempt may still complete": {
    why: "The work is done and no other attempt has started. Refusing the outcome would run it twice.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      expect("complete by the lapsed attempt", await owner.complete(), true);
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "completed", outcome: DONE });
    },
  },
  "a lapsed attempt may still renew": {
    why: "A pause longer than the lease is harmless as long as no other attempt took over.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      expect("renew by the lapsed attempt", await owner.renew(), true);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as) => [
      `a lapsed attempt may still abandon as ${as}`,
      {
        why: "The attempt knows how it ended, and the next one needs to know. The end of the lease was only a guess.",
        async check({ work, outlast }) {
          const owner = await work.begin({ leaseMs: SHORT_MS });
          await outlast(SHORT_MS);
          expect("abandon by the lapsed attempt", await owner.abandon(as), true);
          const state = as === "unknown" ? "lapsed" : "released";
          expect("the record", await work.record(), { state });
        },
      },
    ]) satisfies [string, GuaranteeCases[string]][],
  ),
  "an attempt that gave up as unknown may still complete": {
    why: "A late outcome is better than an unknown one.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("unknown");
      expect("complete after abandon as unknown", await owner.complete(), true);
    },
  },
  "a repeated takeover is recognised by its token": {
    why: "The record no longer has the fence that it names, because the first takeover replaced it.",
    async check({ work, outlast }) {
      const { fence: takeover } = await work.begin({ leaseMs: SHORT_MS, hold: true });
      await outlast(SHORT_MS);
      const decider = work.attempt();
      const first = await decider.claim({ takeover });
      expect("the takeover", first, { status: "new" });
      const { fence } = first as { fence: number };
      expect("the repeated takeover", await decider.claim({ takeover }), { status: "new", fence });
    },
  },
  "a repeated claim still says that it took over": {
    why: "An attempt that lost the first reply must still learn that an earlier outcome is unknown.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const successor = await work.begin();
      expect("the repeated claim", await successor.claim(), { status: "new", tookOver: true });
    },
  },
  "a repeated claim leaves its record held": {
    why: "The repeat may come from a guard with other policies, and must not lift the hold.",
    async check({ work }) {
      const owner = await work.begin({ hold: true });
      await owner.claim({ hold: false });
      expect("the record", await work.record(), { hold: true });
    },
  },
};
