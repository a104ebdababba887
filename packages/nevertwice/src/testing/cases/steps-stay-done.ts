/** A finished step is kept under its claim, and every later attempt at the same work finds it. */
import { about, expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases, StoreNeed, Trial } from "./trial.ts";
import { type BegunAttempt, DONE, EVERY_AS, RETENTION_MS, SHORT_MS } from "./work.ts";

const needs: readonly StoreNeed[] = ["keepStep"];

const FIRST = { name: "charge", outcome: "paid" };
const SECOND = { name: "ship", outcome: "sent" };

/** Texts that a store could change or confuse: quotes, line breaks, other scripts, and what looks like another step. */
const DIFFICULT = [
  { name: 'a "quoted" \\ name', outcome: 'a "quoted" \\ outcome' },
  { name: "line\nbreak", outcome: 'one\ntwo\n["charge",1,"no"]\n' },
  { name: "größer 漢字 🚚", outcome: "größer 漢字 🚚" },
  { name: "long", outcome: "x".repeat(20_000) },
];

/** A claim with two finished steps. */
async function withSteps({ work }: Trial, terms: Parameters<Trial["work"]["begin"]>[0] = {}) {
  const owner = await work.begin(terms);
  for (const { name, outcome } of [FIRST, SECOND]) await owner.keepStep(name, outcome);
  return owner;
}

async function lapsedWithSteps(trial: Trial): Promise<BegunAttempt> {
  const owner = await withSteps(trial, { leaseMs: SHORT_MS });
  await trial.outlast(SHORT_MS);
  return owner;
}

async function expectNoSteps({ work }: Trial): Promise<void> {
  const answer = await work.attempt().claim();
  expect("the next claim", answer, { status: "new", steps: undefined });
}

const CASES: Readonly<Record<string, Omit<GuaranteeCase, "needs">>> = {
  "a step that its owner keeps is shown in the record": {
    why: "An operator must see how far an attempt came.",
    async check({ work }) {
      const owner = await work.begin();
      expect("keepStep", await owner.keepStep(FIRST.name, FIRST.outcome), true);
      const record = await work.record();
      const keptAt = about(record.claimedAt, 10_000);
      expect("the record", record, { state: "pending", steps: [{ ...FIRST, keptAt }] });
    },
  },
  "a claim without finished steps answers without steps": {
    why: "The work must not take a step of another key for its own.",
    async check({ work, another }) {
      await (await another().begin()).keepStep(FIRST.name);
      const answer = await work.attempt().claim();
      expect("the claim", answer, { status: "new", steps: undefined });
      expect("the record", await work.record(), { steps: undefined });
    },
  },
  "a takeover finds the finished steps in their order": {
    why: "An attempt after a crash repeats at most the step that was in flight.",
    async check(trial) {
      await lapsedWithSteps(trial);
      const answer = await trial.work.attempt().claim();
      expect("the takeover", answer, { status: "new", steps: [FIRST, SECOND] });
      expect("the record", await trial.work.record(), { steps: [FIRST, SECOND] });
    },
  },
  "a takeover by the fence of a held record finds the finished steps": {
    why: "An operator who decides that the work goes on must not make it repeat its steps.",
    async check(trial) {
      const { fence } = await withSteps(trial, { leaseMs: SHORT_MS, hold: true });
      await trial.outlast(SHORT_MS);
      const answer = await trial.work.attempt().claim({ takeover: fence });
      expect("the takeover", answer, { status: "new", steps: [FIRST, SECOND] });
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as) => [
      `a claim after an abandon as ${as} finds the finished steps`,
      {
        why: "The attempt failed, but what it finished is done.",
        async check(trial: Trial) {
          await (await withSteps(trial)).abandon(as);
          const answer = await trial.work.attempt().claim();
          expect("the next claim", answer, { status: "new", steps: [FIRST, SECOND] });
        },
      },
    ]),
  ),
  "the steps of two attempts are kept together": {
    why: "A third attempt must not repeat what the second one finished.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.keepStep(FIRST.name, FIRST.outcome);
      await owner.abandon("released");
      const next = await work.begin();
      expect("keepStep of the next attempt", await next.keepStep(SECOND.name, SECOND.outcome), true);
      await next.abandon("released");
      expect("the third claim", await work.attempt().claim(), { status: "new", steps: [FIRST, SECOND] });
    },
  },
  "a repeated claim of the owner finds its own steps": {
    why: "A claim that is repeated after a lost reply owns what it owned.",
    async check(trial) {
      const owner = await withSteps(trial);
      expect("the repeated claim", await owner.claim(), { status: "new", steps: [FIRST, SECOND] });
    },
  },
  "a renewed claim keeps its steps": {
    why: "Long work renews its claim between its steps.",
    async check(trial) {
      const owner = await withSteps(trial);
      await owner.renew();
      expect("the record", await trial.work.record(), { steps: [FIRST, SECOND] });
    },
  },
  "an owner whose lease ended may keep a step until another attempt takes over": {
    why: "The step is done. If it is kept, the next attempt does not repeat it.",
    async check(trial) {
      const owner = await lapsedWithSteps(trial);
      expect("keepStep", await owner.keepStep("mail"), true);
      const steps = [FIRST, SECOND, { name: "mail", outcome: DONE }];
      expect("the takeover", await trial.work.attempt().claim(), { status: "new", steps });
    },
  },
  "a token that was overtaken keeps no step": {
    why: "The claim is lost, and the attempt must be told so before it starts another effect.",
    async check(trial) {
      const owner = await lapsedWithSteps(trial);
      await trial.work.begin();
      expect("keepStep", await owner.keepStep("mail"), false);
      expect("the record", await trial.work.record(), { steps: [FIRST, SECOND] });
    },
  },
  "a token that never claimed keeps no step": {
    why: "Only the owner of a claim knows what was done under it.",
    async check(trial) {
      expect("keepStep without a record", await trial.work.attempt().keepStep("mail"), false);
      expect("the key", await trial.work.read(), undefined);
      await withSteps(trial);
      expect("keepStep of another token", await trial.work.attempt().keepStep("mail"), false);
      expect("the record", await trial.work.record(), { steps: [FIRST, SECOND] });
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as) => [
      `a token that gave its claim up as ${as} keeps no step`,
      {
        why: "Another attempt may have read the finished steps already.",
        async check(trial: Trial) {
          const owner = await withSteps(trial);
          await owner.abandon(as);
          expect("keepStep", await owner.keepStep("mail"), false);
          expect("the record", await trial.work.record(), { steps: [FIRST, SECOND] });
        },
      },
    ]),
  ),
  "a completed key takes no step and shows none": {
    why: "The outcome says that all of the work is done. The steps would only take space.",
    async check(trial) {
      const owner = await withSteps(trial);
      expect("complete", await owner.complete(), true);
      expect("keepStep", await owner.keepStep("mail"), false);
      expect("the record", await trial.work.record(), {
        state: "completed",
        outcome: DONE,
        steps: undefined,
      });
    },
  },
  "a step that is kept again stays as it was": {
    why: "A call whose reply was lost is repeated, and the outcome of a finished step never changes.",
    async check(trial) {
      const owner = await withSteps(trial);
      const before = await trial.work.record();
      expect("keepStep, repeated", await owner.keepStep(FIRST.name, "another outcome"), true);
      expect("the record", await trial.work.record(), { steps: before.steps });
    },
  },
  "another fingerprint conflicts with a released key that has steps": {
    why: "The next attempt would skip steps that were done for another request.",
    async check(trial) {
      const owner = await withSteps(trial, { fingerprint: "v1:a" });
      await owner.abandon("released");
      const other = await trial.work.attempt().claim({ fingerprint: "v1:b" });
      expect("a claim with another fingerprint", other, { status: "conflict", state: "released" });
      const same = await trial.work.attempt().claim({ fingerprint: "v1:a" });
      expect("a claim with the same fingerprint", same, { status: "new", steps: [FIRST, SECOND] });
    },
  },
  "a released key with steps keeps its fingerprint over a claim without one": {
    why: "Otherwise a third claim could continue the steps of another request.",
    async check(trial) {
      await (await withSteps(trial, { fingerprint: "v1:a" })).abandon("released");
      await (await trial.work.begin()).abandon("released");
      const other = await trial.work.attempt().claim({ fingerprint: "v1:b" });
      expect("a claim with another fingerprint", other, { status: "conflict", state: "released" });
    },
  },
  "names and outcomes of steps come back unchanged": {
    why: "The next attempt works with the outcome as if it had run the step itself.",
    async check({ work }) {
      const owner = await work.begin();
      for (const { name, outcome } of DIFFICULT) {
        expect("keepStep", await owner.keepStep(name, outcome), true);
        expect("keepStep, repeated", await owner.keepStep(name, outcome), true);
      }
      expect("the record", await work.record(), { steps: DIFFICULT });
      await owner.abandon("released");
      expect("the next claim", await work.attempt().claim(), { status: "new", steps: DIFFICULT });
    },
  },
  "steps end with the retention of their record": {
    why: "After its retention a key starts anew, and so does its work.",
    async check(trial) {
      await (await withSteps(trial, { leaseMs: 1, retentionMs: SHORT_MS })).abandon("released");
      await trial.outlast(SHORT_MS + 1);
      await expectNoSteps(trial);
    },
  },
};

const FORGET_CASES: Readonly<Record<string, Omit<GuaranteeCase, "needs">>> = {
  "a forgotten key has no steps": {
    why: "An erasure request covers what the steps returned.",
    async check(trial) {
      const owner = await withSteps(trial);
      await owner.abandon("released");
      await trial.work.forget(owner.fence);
      await expectNoSteps(trial);
    },
  },
  "a reopened key has no steps": {
    why: "The operator decided that all of the work is done again.",
    async check(trial) {
      const owner = await withSteps(trial);
      await owner.complete(DONE, RETENTION_MS);
      await trial.work.reopen(owner.fence);
      await expectNoSteps(trial);
    },
  },
};

const withNeeds = (cases: typeof CASES, needed: readonly StoreNeed[]): GuaranteeCases =>
  Object.fromEntries(Object.entries(cases).map(([name, each]) => [name, { ...each, needs: needed }]));

export const stepsStayDone: GuaranteeCases = {
  ...withNeeds(CASES, needs),
  ...withNeeds(FORGET_CASES, [...needs, "forget"]),
};
