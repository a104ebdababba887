/** Stores that lose, change or mix up the finished steps of an attempt. */
import { addedStep, hasSteps } from "../../../src/core/kept-steps.ts";
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  forgetRecord,
  type Kept,
  keepStepRecord,
  renewRecord,
} from "../../../src/core/record.ts";
import type { KeepStepRequest } from "../../../src/core/store.ts";
import { deciding, type Fault, isNew, judging, reading, type WrongRules, writing } from "../wrong-rules.ts";

const withoutSteps = (record: Kept): Kept => ({ ...record, steps: undefined });

/** Keeps the step under other conditions than the right ones. */
function keeping(
  mayKeep: (found: Kept | undefined, request: KeepStepRequest, now: number) => boolean,
): WrongRules {
  return () => ({
    keepStep(found, request, now) {
      const step = keepStepRecord(found, request, now);
      if (step.answer || !mayKeep(found, request, now)) return step;
      const base = found as Kept;
      return { answer: true, write: { ...base, steps: addedStep(base, request, now) ?? base.steps } };
    },
  });
}

/** Keeps another step than the one that was given. */
function keepingAs(change: (request: KeepStepRequest) => KeepStepRequest): WrongRules {
  return () => ({ keepStep: (found, request, now) => keepStepRecord(found, change(request), now) });
}

const AFTER_RELEASE = "a claim after an abandon as released finds the finished steps";
const AFTER_UNKNOWN = "a claim after an abandon as unknown finds the finished steps";
const AFTER_UNRUN = "a claim after an abandon as unrun finds the finished steps";
const TAKEOVER = "a takeover finds the finished steps in their order";
const BY_FENCE = "a takeover by the fence of a held record finds the finished steps";
const TOGETHER = "the steps of two attempts are kept together";
const REPEATED = "a repeated claim of the owner finds its own steps";
const LAPSED_OWNER = "an owner whose lease ended may keep a step until another attempt takes over";
const OVERTAKEN = "a token that was overtaken keeps no step";
const STRANGER = "a token that never claimed keeps no step";
const AGAIN = "a step that is kept again stays as it was";
const COMPLETED = "a completed key takes no step and shows none";
const CONFLICT = "another fingerprint conflicts with a released key that has steps";
const FINGERPRINT = "a released key with steps keeps its fingerprint over a claim without one";
const EXACT = "names and outcomes of steps come back unchanged";
const SHOWN = "a step that its owner keeps is shown in the record";

/** The cases in which the next attempt must find the steps. */
const FOUND_BY_THE_NEXT = [TAKEOVER, BY_FENCE, AFTER_RELEASE, AFTER_UNKNOWN, AFTER_UNRUN, TOGETHER];
const KEPT_AFTER_GIVING_UP = [
  "a token that gave its claim up as released keeps no step",
  "a token that gave its claim up as unknown keeps no step",
  "a token that gave its claim up as unrun keeps no step",
];

export const stepsStayDone: readonly Fault[] = [
  {
    fault: "drops the steps when another token claims",
    rules: judging((found, request) => (found.token === request.token ? found : withoutSteps(found))),
    caught: [...FOUND_BY_THE_NEXT, LAPSED_OWNER, OVERTAKEN, CONFLICT, FINGERPRINT, EXACT],
  },
  {
    fault: "drops the steps when the key is released",
    rules: () => ({
      abandon(found, token, as, now) {
        const step = abandonRecord(found, token, as, now);
        return step.write?.state === "released" ? { ...step, write: withoutSteps(step.write) } : step;
      },
    }),
    caught: [
      AFTER_RELEASE,
      AFTER_UNRUN,
      TOGETHER,
      CONFLICT,
      FINGERPRINT,
      EXACT,
      "a token that gave its claim up as released keeps no step",
      "a token that gave its claim up as unrun keeps no step",
    ],
  },
  {
    fault: "answers a takeover without the steps that it carries on",
    rules: deciding((decision) => {
      if (!isNew(decision.answer) || !decision.answer.tookOver) return decision;
      const { steps: _, ...answer } = decision.answer;
      return { ...decision, answer };
    }),
    caught: [TAKEOVER, BY_FENCE, AFTER_UNKNOWN, LAPSED_OWNER],
  },
  {
    fault: "answers a takeover with the steps and does not keep them for the next one",
    rules: writing((write, { answer }) => (isNew(answer) && answer.tookOver ? withoutSteps(write) : write)),
    caught: [TAKEOVER, OVERTAKEN],
  },
  {
    fault: "answers a repeated claim without its steps",
    rules: deciding((decision, found, request) => {
      if (!isNew(decision.answer) || found?.token !== request.token) return decision;
      const { steps: _, ...answer } = decision.answer;
      return { ...decision, answer };
    }),
    caught: [REPEATED],
  },
  {
    fault: "answers the steps in the order of their names, backwards",
    rules: deciding((decision) =>
      isNew(decision.answer) && decision.answer.steps !== undefined
        ? {
            ...decision,
            answer: {
              ...decision.answer,
              steps: decision.answer.steps.toSorted((a, b) => (a.name < b.name ? 1 : -1)),
            },
          }
        : decision,
    ),
    caught: [...FOUND_BY_THE_NEXT, REPEATED, LAPSED_OWNER, CONFLICT, EXACT],
  },
  {
    fault: "drops the steps when the claim is renewed",
    rules: () => ({
      renew(found, token, leaseMs, now) {
        const step = renewRecord(found, token, leaseMs, now);
        return step.write === undefined ? step : { ...step, write: withoutSteps(step.write) };
      },
    }),
    caught: ["a renewed claim keeps its steps"],
  },
  {
    fault: "keeps only the last step",
    rules: () => ({
      keepStep: (found, request, now) => {
        const step = keepStepRecord(found, request, now);
        return step.write === undefined ? step : keepStepRecord(withoutSteps(step.write), request, now);
      },
    }),
    caught: [
      ...FOUND_BY_THE_NEXT,
      REPEATED,
      "a renewed claim keeps its steps",
      LAPSED_OWNER,
      OVERTAKEN,
      STRANGER,
      ...KEPT_AFTER_GIVING_UP,
      AGAIN,
      CONFLICT,
      EXACT,
    ],
  },
  {
    fault: "refuses a step after the lease has ended",
    rules: () => ({
      keepStep: (found, request, now) =>
        found !== undefined && now >= found.leaseEndsAt
          ? { answer: false }
          : keepStepRecord(found, request, now),
    }),
    caught: [LAPSED_OWNER],
  },
  {
    fault: "keeps a step for any token",
    rules: keeping((found, { token }) => found?.state === "pending" && !found.spent && found.token !== token),
    caught: [OVERTAKEN, STRANGER],
  },
  {
    fault: "answers true to a token that owns nothing",
    rules: () => ({
      keepStep: (found, request, now) =>
        found === undefined ? { answer: true } : keepStepRecord(found, request, now),
    }),
    caught: [STRANGER],
  },
  {
    fault: "keeps a step for a token that gave its claim up",
    rules: keeping((found, { token }) => found?.token === token && found.spent),
    caught: [...KEPT_AFTER_GIVING_UP],
  },
  {
    fault: "keeps a step for a completed key",
    rules: keeping((found, { token }) => found?.token === token && found.state === "completed"),
    caught: [COMPLETED],
  },
  {
    fault: "keeps the steps of a completed key, and shows them",
    rules: () => ({
      complete(found, request, now) {
        const step = completeRecord(found, request, now);
        return step.write === undefined || found?.steps === undefined
          ? step
          : { ...step, write: { ...step.write, steps: found.steps } };
      },
      read: (record, now) => {
        const { steps = [] } = claimRecord({ ...record, state: "pending" }, asOwner(record), now, () => 1)
          .answer as { steps?: [] };
        const shown = reading((view) => view)()?.read?.(record, now);
        return shown && steps.length > 0 ? { ...shown, steps } : shown;
      },
    }),
    caught: [COMPLETED],
  },
  {
    fault: "lets the last outcome of a step count",
    rules: () => ({
      keepStep(found, request, now) {
        const step = keepStepRecord(found, request, now);
        if (!step.answer || step.write !== undefined || found === undefined) return step;
        return {
          answer: true,
          write: { ...found, steps: `${found.token}\n["${request.name}",1,"other"]\n` },
        };
      },
    }),
    caught: [AGAIN, EXACT],
  },
  {
    fault: "does not compare the fingerprint of a released key",
    rules: () => ({
      claim: (found, request, now, nextFence) =>
        claimRecord(
          found?.state === "released" && request.fingerprint !== undefined
            ? { ...found, fingerprint: undefined }
            : found,
          request,
          now,
          nextFence,
        ),
    }),
    caught: [CONFLICT, FINGERPRINT],
  },
  {
    fault: "loses the fingerprint to a claim without one",
    rules: writing((write, { found, request }) =>
      found?.state === "released" && request.fingerprint === undefined
        ? { ...write, fingerprint: undefined }
        : write,
    ),
    caught: [FINGERPRINT],
  },
  {
    fault: "keeps line breaks as spaces",
    rules: keepingAs((request) => ({ ...request, outcome: request.outcome.replaceAll("\n", " ") })),
    caught: [EXACT],
  },
  {
    fault: "shows no steps",
    rules: reading(({ steps: _, ...shown }) => shown),
    caught: [
      SHOWN,
      TAKEOVER,
      "a renewed claim keeps its steps",
      OVERTAKEN,
      STRANGER,
      ...KEPT_AFTER_GIVING_UP,
      EXACT,
    ],
  },
  {
    fault: "carries the steps of an expired record on",
    rules: () => ({
      claim(found, request, now, nextFence) {
        const decision = claimRecord(found, request, now, nextFence);
        if (!isNew(decision.answer) || found === undefined || now < found.keptUntil || !hasSteps(found))
          return decision;
        const steps = [{ name: "charge", outcome: "paid", keptAt: 1 }];
        return { ...decision, answer: { ...decision.answer, steps } };
      },
    }),
    caught: ["steps end with the retention of their record"],
  },
  {
    fault: "answers with the steps of the key that was claimed before",
    rules: () => {
      let last: Kept["steps"];
      return {
        keepStep(found, request, now) {
          const step = keepStepRecord(found, request, now);
          last = step.write?.steps ?? last;
          return step;
        },
        claim(found, request, now, nextFence) {
          const decision = claimRecord(found, request, now, nextFence);
          if (found !== undefined || last === undefined || !isNew(decision.answer)) return decision;
          const steps = [{ name: "charge", outcome: "paid", keptAt: 1 }];
          return { ...decision, answer: { ...decision.answer, steps } };
        },
      };
    },
    caught: ["a claim without finished steps answers without steps", "a forgotten key has no steps"],
  },
  {
    fault: "keeps the steps of a key that is reopened",
    rules: () => {
      let kept: Kept["steps"];
      return {
        complete(found, request, now) {
          kept = found?.steps;
          return completeRecord(found, request, now);
        },
        forget(found, request, now) {
          const step = forgetRecord(found, request, now);
          return step.write?.state === "released" ? { ...step, write: { ...step.write, steps: kept } } : step;
        },
      };
    },
    caught: ["a reopened key has no steps"],
  },
];

/** A claim with which the record's own token reads its steps. */
function asOwner(record: Kept): Parameters<typeof claimRecord>[1] {
  const { id, token, leaseMs, retentionMs } = record;
  const parts = { namespace: "", scope: "", operation: "", key: "" };
  return { id, parts, token, leaseMs, retentionMs, hold: false };
}
