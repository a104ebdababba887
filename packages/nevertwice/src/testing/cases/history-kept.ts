/** A record remembers its attempts until it is absent: when each claimed, how often it was renewed, and how it ended. */
import type { AbandonAs, KeptAttempt, StoreRecord } from "../../core/store.ts";
import { about, above, expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases, StoreNeed, Trial } from "./trial.ts";
import { type BegunAttempt, EVERY_AS, RETENTION_MS, SHORT_MS } from "./work.ts";

/** How far apart a case's times may be: a store may round, and a busy machine is slow. */
const TOLERANCE_MS = 30_000;
/** How many earlier attempts a record remembers. */
const REMEMBERED = 32;
/** Clearly more than the tolerance, where the clock can be moved. */
const LATER_MS = 100_000;

const SOME_TIME = above(0);
const NEVER_RENEWED = { renewals: 0, renewedAt: undefined };
const RUNNING = { endedAt: undefined, ended: undefined };

async function readHistory({ work }: Trial): Promise<NonNullable<StoreRecord["history"]>> {
  const { history } = await work.record();
  if (history === undefined) expect("the history", history, { attempts: [] });
  return history as NonNullable<StoreRecord["history"]>;
}

/** What the history must say about this attempt; `more` is how it was renewed and how it ended. */
const said = ({ number, fence }: BegunAttempt, more: Partial<Record<keyof KeptAttempt, unknown>>) => ({
  number,
  fence,
  ...NEVER_RENEWED,
  ...RUNNING,
  ...more,
});

async function expectAttempts(trial: Trial, attempts: readonly unknown[], dropped = 0): Promise<void> {
  expect("the history", await readHistory(trial), { attempts, dropped });
}

/**
 * The attempt that follows this one. Undefined if the store does not count it as the next one, which other guarantees are
 * about.
 */
async function following(
  { work }: Trial,
  { number }: BegunAttempt,
  terms = {},
): Promise<BegunAttempt | undefined> {
  const next = await work.begin(terms);
  return next.number === number + 1 ? next : undefined;
}

/** The attempt, and when it claimed by the store's clock. */
async function begin(trial: Trial, terms: Parameters<Trial["work"]["begin"]>[0] = {}) {
  const attempt = await trial.work.begin(terms);
  const { claimedAt } = await trial.work.record();
  return { attempt, claimedAt };
}

/** Ends the attempt a while after its claim, and checks how the history shows it before and after the next claim. */
async function endedBy(trial: Trial, as: AbandonAs): Promise<void> {
  const { attempt, claimedAt } = await begin(trial);
  const passed = await trial.skipAhead(1_000);
  await attempt.abandon(as);
  const endedAt = about(claimedAt + passed, passed / 2 || TOLERANCE_MS);
  const first = said(attempt, { claimedAt: about(claimedAt, 1), ended: as, endedAt });
  await expectAttempts(trial, [first]);
  await trial.skipAhead(1_000);
  const next = await following(trial, attempt);
  if (next === undefined) return;
  const { claimedAt: later } = await trial.work.record();
  await expectAttempts(trial, [first, said(next, { claimedAt: about(later, 1) })]);
}

const CASES: GuaranteeCases = {
  "a running attempt is the last one of the history": {
    why: "An operator sees in one list what ran and what is running.",
    async check(trial) {
      const { attempt, claimedAt } = await begin(trial);
      await expectAttempts(trial, [said(attempt, { claimedAt })]);
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as) => [
      `an attempt that was abandoned as ${as} stays in the history with its end`,
      {
        why: "After a failure an operator must see which attempts there were, and how each of them ended.",
        check: (trial: Trial) => endedBy(trial, as),
      },
    ]),
  ),
  "an attempt that lapsed stays in the history with the end of its lease": {
    why: "A process that died cannot report it; the record is all that is left of the attempt.",
    async check(trial) {
      const { attempt, claimedAt } = await begin(trial, { leaseMs: SHORT_MS });
      await trial.outlast(SHORT_MS);
      const first = said(attempt, { ended: "lapsed", endedAt: about(claimedAt + SHORT_MS, 10_000) });
      await expectAttempts(trial, [first]);
      const next = await following(trial, attempt);
      if (next !== undefined) await expectAttempts(trial, [first, said(next, {})]);
    },
  },
  "an attempt that was taken over by its fence stays in the history": {
    why: "A decision about held work is an attempt of its own, and hides none.",
    async check(trial) {
      const { attempt } = await begin(trial, { hold: true });
      await attempt.abandon("unknown");
      const first = said(attempt, { ended: "unknown", endedAt: SOME_TIME });
      const next = await following(trial, attempt, { takeover: attempt.fence });
      if (next !== undefined) await expectAttempts(trial, [first, said(next, {})]);
    },
  },
  "the attempt that completed the key is the last one of the history": {
    why: "A completed key shows when the work was done, and how many attempts it took.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await attempt.abandon("released");
      const next = await following(trial, attempt);
      if (next === undefined) return;
      await next.complete();
      const { completedAt = 0 } = await trial.work.record();
      await expectAttempts(trial, [
        { fence: attempt.fence, ended: "released" },
        said(next, { ended: "completed", endedAt: about(completedAt, 1) }),
      ]);
    },
  },
  "renewals are counted, with the time of the last one": {
    why: "Long work that was renewed until a moment ago is alive; work that was not is stuck.",
    async check(trial) {
      const { attempt, claimedAt } = await begin(trial);
      await attempt.renew();
      const passed = await trial.skipAhead(1_000);
      await attempt.renew();
      const renewedAt = about(claimedAt + passed, passed / 2 || TOLERANCE_MS);
      const renewed = said(attempt, { renewals: 2, renewedAt });
      await expectAttempts(trial, [renewed]);
      await attempt.abandon("released");
      const next = await following(trial, attempt);
      if (next === undefined) return;
      await next.renew();
      const first = { ...renewed, ended: "released", endedAt: renewedAt };
      await expectAttempts(trial, [first, { fence: next.fence, renewals: 1 }]);
    },
  },
  "a lapsed attempt keeps its renewals": {
    why: "They tell how long the process lived.",
    async check(trial) {
      const { attempt } = await begin(trial, { leaseMs: SHORT_MS });
      await attempt.renew(SHORT_MS);
      await trial.outlast(SHORT_MS);
      const next = await following(trial, attempt);
      if (next === undefined) return;
      await expectAttempts(trial, [{ renewals: 1, ended: "lapsed" }, { renewals: 0 }]);
    },
  },
  "a completion keeps the renewals of its attempt": {
    why: "The page of a completed key must not say less than that of a running one.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await attempt.renew();
      await attempt.complete();
      await expectAttempts(trial, [{ number: 1, renewals: 1, ended: "completed" }]);
    },
  },
  "a renewal that was refused counts nothing": {
    why: "A late owner must not make the next attempt look alive.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await attempt.abandon("released");
      await trial.work.begin();
      // stale-token-refused is about stores that do not refuse it.
      if (!(await attempt.renew())) await expectAttempts(trial, [{ renewals: 0 }, { renewals: 0 }]);
    },
  },
  "an abandon that is repeated keeps the first end": {
    why: "A call is repeated after a lost reply, perhaps much later.",
    async check(trial) {
      const { attempt, claimedAt } = await begin(trial);
      await attempt.abandon("released");
      await trial.skipAhead(LATER_MS);
      await attempt.abandon("unknown");
      // abandon-frees is about stores in which the last abandon counts.
      if ((await trial.work.record()).state !== "released") return;
      await expectAttempts(trial, [
        said(attempt, { ended: "released", endedAt: about(claimedAt, TOLERANCE_MS) }),
      ]);
    },
  },
  "a repeated claim of the owner adds nothing to the history": {
    why: "A claim that is repeated after a lost reply is the same attempt.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await attempt.renew();
      await attempt.claim();
      await expectAttempts(trial, [{ number: 1, fence: attempt.fence, renewals: 1 }]);
    },
  },
  "claims that are not granted add nothing to the history": {
    why: "Ten thousand duplicates are no attempts.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await trial.work.attempt().claim();
      await attempt.complete();
      await trial.work.attempt().claim();
      await expectAttempts(trial, [said(attempt, { ended: "completed", endedAt: SOME_TIME })]);
    },
  },
  "only the latest attempts are listed, and the others counted": {
    why: "A key that fails for days must not grow without bound.",
    async check(trial) {
      const begun = [await trial.work.begin()];
      while (begun.length < REMEMBERED + 3) {
        await begun.at(-1)?.abandon("released");
        const next = await following(trial, begun.at(-1) as BegunAttempt);
        if (next === undefined) return;
        begun.push(next);
      }
      const listed = begun.slice(2).map(({ number, fence }) => ({ number, fence }));
      await expectAttempts(trial, listed, 2);
    },
  },
  "the history ends with the retention of its record": {
    why: "After its retention a key starts anew, with attempt 1.",
    async check(trial) {
      const attempt = await trial.work.begin({ leaseMs: SHORT_MS, retentionMs: 1 });
      await attempt.renew(SHORT_MS);
      await attempt.abandon("released");
      await trial.outlast(SHORT_MS + 1);
      const next = await trial.work.begin();
      await expectAttempts(trial, [said(next, { number: 1 })]);
    },
  },
  "a key without a record has no history": {
    why: "The attempts of another key must not be taken for its own.",
    async check(trial) {
      const other = await trial.another().begin();
      await other.abandon("released");
      const { attempt } = await begin(trial);
      await expectAttempts(trial, [said(attempt, { number: 1 })]);
    },
  },
};

const FORGET_CASES: GuaranteeCases = {
  "an attempt whose completion was taken back stays in the history as completed": {
    why: "The work was done twice on purpose, and the record must say so.",
    async check(trial) {
      const { attempt, claimedAt } = await begin(trial);
      await attempt.complete("done", RETENTION_MS);
      await trial.skipAhead(LATER_MS);
      await trial.work.reopen(attempt.fence);
      const next = await trial.work.begin();
      const endedAt = about(claimedAt, TOLERANCE_MS);
      await expectAttempts(trial, [
        said(attempt, { ended: "completed", endedAt }),
        said(next, { number: 2 }),
      ]);
    },
  },
  "a forgotten key has no history": {
    why: "What was forgotten starts anew.",
    async check(trial) {
      const { attempt } = await begin(trial);
      await attempt.abandon("released");
      await trial.work.forget(attempt.fence);
      const next = await trial.work.begin();
      await expectAttempts(trial, [said(next, { number: 1 })]);
    },
  },
};

const withNeeds = (cases: GuaranteeCases, needs: readonly StoreNeed[]): GuaranteeCases =>
  Object.fromEntries(
    Object.entries(cases).map(([name, each]): [string, GuaranteeCase] => [name, { ...each, needs }]),
  );

export const historyKept: GuaranteeCases = {
  ...withNeeds(CASES, ["history"]),
  ...withNeeds(FORGET_CASES, ["history", "forget"]),
};
