/** One successor takes over what lapsed; and where somebody must decide, one decision counts, made on what was seen. */
import { expect } from "./expect.ts";
import type { Cases, Trial } from "./trial.ts";
import { type BegunAttempt, SHORT_MS, tally } from "./work.ts";

async function lapsed({ work, outlast }: Trial, hold: boolean): Promise<BegunAttempt> {
  const owner = await work.begin({ leaseMs: SHORT_MS, hold });
  await outlast(SHORT_MS);
  return owner;
}

export const takeoverIsSingle: Cases = {
  "of fifty claims of a lapsed key at once one takes over": {
    why: "All who waited come at the moment the lease ends, and only one of them may go on with the work.",
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
    why: "It is the one way to decide, so it must be open.",
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
  "a takeover by another fence loses though nobody holds the record": {
    why: "A claim that names a fence asks for that one and for no other.",
    async check(trial) {
      const { fence } = await lapsed(trial, false);
      const answer = await trial.work.attempt().claim({ takeover: fence + 1 });
      expect("a takeover by another fence", answer, { status: "unknown", fence });
    },
  },
  "a second decision by the same fence loses": {
    why: "The first decider's attempt has lapsed too, and that is another question than the one decided.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const first = await trial.work.begin({ takeover: fence });
      await first.abandon("unknown");
      const answer = await trial.work.attempt().claim({ takeover: fence });
      expect("a takeover by the fence before", answer, { status: "unknown", fence: first.fence });
    },
  },
  "a held record that lapsed is unknown to every claim without takeover": {
    why: "No guard walks over an unknown outcome that another one promised to ask about.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      expect("a claim", await trial.work.attempt().claim(), { status: "unknown", fence });
    },
  },
  "a claim that holds finds a lapsed record unknown": {
    why: "A guard that was told to ask asks, though the attempt before it was not.",
    async check(trial) {
      const { fence } = await lapsed(trial, false);
      expect("a claim with hold", await trial.work.attempt().claim({ hold: true }), {
        status: "unknown",
        fence,
      });
    },
  },
  "an unknown answer changes nothing": {
    why: "Asking is not deciding: the record waits for whoever decides.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const { token, number, hold, keptUntil } = await trial.work.record();
      await trial.work.attempt().claim();
      await trial.work.attempt().claim({ takeover: fence + 1 });
      expect("the record", await trial.work.record(), { token, number, hold, keptUntil });
    },
  },
  "a held record stays held when it is taken over": {
    why: "If the decider fails in turn, the question is open again, and still not anyone's to answer.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const decider = await trial.work.begin({ takeover: fence });
      await decider.abandon("unknown");
      const answer = await trial.work.attempt().claim();
      expect("a claim", answer, { status: "unknown", fence: decider.fence });
    },
  },
  "a held record stays held when who took it over never ran": {
    why: "A decider that could not act leaves the decision to the next one, not to whoever asks.",
    async check(trial) {
      const { fence } = await lapsed(trial, true);
      const decider = await trial.work.begin({ takeover: fence });
      await decider.abandon("unrun");
      const answer = await trial.work.attempt().claim();
      expect("a claim", answer, { status: "unknown", fence: decider.fence });
    },
  },
  "a takeover does not take a pending key from its owner": {
    why: "The fence is right but the owner is at work: it renewed, or its lease had not ended.",
    async check({ work }) {
      const owner = await work.begin();
      const answer = await work.attempt().claim({ takeover: owner.fence });
      expect("a takeover by its fence", answer, { status: "pending" });
      expect("renew by the owner", await owner.renew(), true);
    },
  },
  "a takeover finds nothing where there is no record": {
    why: "The record that was decided about is gone; a new attempt would begin the work anew.",
    async check({ work }) {
      const answer = await work.attempt().claim({ takeover: 1 });
      expect("a takeover of an absent key", answer, { status: "pending", leaseLeftMs: 0 });
      expect("the record", await work.read(), undefined);
    },
  },
  "a takeover finds nothing to decide on a released key": {
    why: "Somebody decided already: nothing happened, and whoever wants to run the work claims it.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("released");
      const answer = await work.attempt().claim({ takeover: owner.fence });
      expect("a takeover by its fence", answer, { status: "pending", leaseLeftMs: 0 });
      expect("the record", await work.record(), { state: "released", token: owner.token });
    },
  },
};
