/** One attempt takes over a lapsed record. Where an operator decides, only a decision about the current fence counts, once. */
import { expect } from "./expect.ts";
import type { GuaranteeCases, Trial } from "./trial.ts";
import { type BegunAttempt, SHORT_MS, tally } from "./work.ts";

async function lapsed({ work, outlast }: Trial, hold: boolean): Promise<BegunAttempt> {
  const owner = await work.begin({ leaseMs: SHORT_MS, hold });
  await outlast(SHORT_MS);
  return owner;
}

export const takeoverIsSingle: GuaranteeCases = {
  "of fifty claims of a lapsed key at once one takes over": {
    why: "All waiters claim at the moment the lease ends, and only one of them may continue the work.",
    async check(trial) {
      await lapsed(trial, false);
      const answers = await Promise.all(Array.from({ length: 50 }, () => trial.work.attempt().claim()));
      expect("fifty claims by as many tokens", tally(answers), { new: 1, pending: 49 });
    },
  },
  "of fifty takeovers by the same fence at once one is new": {
    why: "Two operators, or two reconcilers, who saw the same record must not both decide about it.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const deciders = Array.from({ length: 50 }, () => trial.work.attempt());
      const answers = await Promise.all(deciders.map((decider) => decider.claim({ takeover: fence })));
      expect("fifty takeovers by as many tokens", tally(answers), { new: 1, pending: 49 });
    },
  },
  "a takeover by the fence of a held record is new": {
    why: "It is the only way to decide, so it must be possible.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const answer = await trial.work.attempt().claim({ takeover: fence });
      expect("the takeover", answer, { status: "new", number: 2, tookOver: true });
    },
  },
  "a takeover that holds is new as well": {
    why: "A reconciler of a guard that holds decides for that guard.",
    async check(trial) {
      const { fence } = await lapsed(trial, false);
      const answer = await trial.work.attempt().claim({ takeover: fence, hold: true });
      expect("the takeover", answer, { status: "new", number: 2, tookOver: true });
    },
  },
  "a takeover by another fence is unknown, with the fence to look at": {
    why: "A decision about an attempt that is no longer the last one must lose.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const answer = await trial.work.attempt().claim({ takeover: fence - 1 });
      expect("a takeover by another fence", answer, { status: "unknown", fence });
    },
  },
  "a takeover by another fence loses even where the record is not held": {
    why: "A claim that names a fence asks for that one and for no other.",
    async check(trial) {
      const { fence } = await lapsed(trial, false);
      const answer = await trial.work.attempt().claim({ takeover: fence + 1 });
      expect("a takeover by another fence", answer, { status: "unknown", fence });
    },
  },
  "a second decision by the same fence loses": {
    why: "The attempt of the first decision has lapsed as well, and that needs another decision.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const first = await trial.work.begin({ takeover: fence });
      await first.abandon("unknown");
      const answer = await trial.work.attempt().claim({ takeover: fence });
      expect("a takeover by the fence before", answer, { status: "unknown", fence: first.fence });
    },
  },
  "a held record that lapsed is unknown to every claim without takeover": {
    why: "No guard may ignore an unknown outcome that another guard holds for a decision.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      expect("a claim", await trial.work.attempt().claim(), { status: "unknown", fence });
    },
  },
  "a claim that holds finds a lapsed record unknown": {
    why: "A guard that holds waits for a decision, even if the attempt before it did not hold.",
    async check(trial) {
      const { fence } = await lapsed(trial, false);
      expect("a claim with hold", await trial.work.attempt().claim({ hold: true }), {
        status: "unknown",
        fence,
      });
    },
  },
  "an unknown answer changes nothing": {
    why: "A claim is not a decision, so the record still waits for one.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const { token, number, hold, keptUntil } = await trial.work.record();
      await trial.work.attempt().claim();
      await trial.work.attempt().claim({ takeover: fence + 1 });
      expect("the record", await trial.work.record(), { token, number, hold, keptUntil });
    },
  },
  "a held record stays held when it is taken over": {
    why: "If the attempt of the decision fails as well, the record needs a decision again.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const decider = await trial.work.begin({ takeover: fence });
      await decider.abandon("unknown");
      const answer = await trial.work.attempt().claim();
      expect("a claim", answer, { status: "unknown", fence: decider.fence });
    },
  },
  "a held record stays held when the attempt that took it over never ran": {
    why: "An operator who could not act leaves the decision to the next one, not to the next claim.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const decider = await trial.work.begin({ takeover: fence });
      await decider.abandon("unrun");
      const answer = await trial.work.attempt().claim();
      expect("a claim", answer, { status: "unknown", fence: decider.fence });
    },
  },
  "a takeover does not take a pending key from its owner": {
    why: "The fence is right, but the owner is working: it renewed, or its lease had not ended.",
    async check({ work }) {
      const owner = await work.begin();
      const answer = await work.attempt().claim({ takeover: owner.fence });
      expect("a takeover by its fence", answer, { status: "pending" });
      expect("renew by the owner", await owner.renew(), true);
    },
  },
  "a takeover finds nothing where there is no record": {
    why: "The record that the decision is about is gone, and a new attempt would start the work again.",
    async check({ work }) {
      const answer = await work.attempt().claim({ takeover: 1 });
      expect("a takeover of an absent key", answer, { status: "pending", leaseLeftMs: 0 });
      expect("the record", await work.read(), undefined);
    },
  },
  "a takeover finds nothing to decide on a released key": {
    why: "The decision was made already: nothing happened, and the next claim may run the work.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("released");
      const answer = await work.attempt().claim({ takeover: owner.fence });
      expect("a takeover by its fence", answer, { status: "pending", leaseLeftMs: 0 });
      expect("the record", await work.record(), { state: "released", token: owner.token });
    },
  },
};
