/** Stores that forget, change or invent attempts of a record. */
import { nextHistory } from "../../../src/core/kept-history.ts";
import {
  abandonRecord,
  claimRecord,
  forgetRecord,
  isExpired,
  type Kept,
  renewRecord,
} from "../../../src/core/record.ts";
import type { KeptAttempt } from "../../../src/core/store.ts";
import {
  completing,
  deciding,
  type Fault,
  isNew,
  reading,
  type WrongRules,
  writing,
} from "../wrong-rules.ts";

/** Shows the attempts of the record otherwise than they are. */
function showing(change: (attempts: readonly KeptAttempt[]) => readonly KeptAttempt[]): WrongRules {
  return reading((shown) => {
    const { attempts = [], dropped = 0 } = shown.history ?? {};
    return { ...shown, history: { attempts: change(attempts), dropped } };
  });
}

/** Writes another history than the right one when another token than the last one claims. */
function claimingAfter(change: (history: string, found: Kept) => string | undefined): WrongRules {
  return writing((write, { found, request }) =>
    found === undefined || found.token === request.token || write.history === undefined
      ? write
      : { ...write, history: change(write.history, found) },
  );
}

const RUNNING = "a running attempt is the last one of the history";
const RELEASED = "an attempt that was abandoned as released stays in the history with its end";
const UNKNOWN = "an attempt that was abandoned as unknown stays in the history with its end";
const UNRUN = "an attempt that was abandoned as unrun stays in the history with its end";
const LAPSED = "an attempt that lapsed stays in the history with the end of its lease";
const BY_FENCE = "an attempt that was taken over by its fence stays in the history";
const COMPLETED = "the attempt that completed the key is the last one of the history";
const RENEWALS = "renewals are counted, with the time of the last one";
const LAPSED_RENEWALS = "a lapsed attempt keeps its renewals";
const COMPLETED_RENEWALS = "a completion keeps the renewals of its attempt";
const REFUSED = "a renewal that was refused counts nothing";
const ABANDONED_AGAIN = "an abandon that is repeated keeps the first end";
const CLAIMED_AGAIN = "a repeated claim of the owner adds nothing to the history";
const NOT_GRANTED = "claims that are not granted add nothing to the history";
const BOUNDED = "only the latest attempts are listed, and the others counted";
const RETENTION = "the history ends with the retention of its record";
const ANOTHER_KEY = "a key without a record has no history";
const REOPENED = "an attempt whose completion was taken back stays in the history as completed";
const FORGOTTEN = "a forgotten key has no history";

/** The cases in which an attempt follows another one. */
const WITH_EARLIER = [
  RELEASED,
  UNKNOWN,
  UNRUN,
  LAPSED,
  BY_FENCE,
  COMPLETED,
  RENEWALS,
  LAPSED_RENEWALS,
  REFUSED,
  BOUNDED,
  REOPENED,
];

export const historyKept: readonly Fault[] = [
  {
    fault: "forgets the earlier attempts when another token claims",
    rules: claimingAfter(() => undefined),
    caught: WITH_EARLIER,
  },
  {
    fault: "remembers only one earlier attempt",
    rules: claimingAfter((history) => history.split(";").slice(0, 2).join(";")),
    caught: [BOUNDED],
  },
  {
    fault: "remembers every attempt there ever was",
    rules: claimingAfter((history, found) => {
      const dropped = found.history?.split(";").slice(32) ?? [];
      return [history, ...dropped].join(";");
    }),
    caught: [BOUNDED],
  },
  {
    fault: "forgets how earlier attempts were renewed and how they ended",
    rules: claimingAfter((history) =>
      history
        .split(";")
        .map((entry) => entry.split(" ").slice(0, 4).join(" "))
        .join(";"),
    ),
    caught: [RELEASED, UNKNOWN, UNRUN, BY_FENCE, RENEWALS, LAPSED_RENEWALS, REOPENED],
  },
  {
    fault: "does not write down that an attempt was abandoned",
    rules: () => ({
      abandon(found, token, as, now) {
        const step = abandonRecord(found, token, as, now);
        return step.write === undefined
          ? step
          : { ...step, write: { ...step.write, history: found?.history } };
      },
    }),
    caught: [RELEASED, UNKNOWN, UNRUN, BY_FENCE, RENEWALS, ABANDONED_AGAIN],
  },
  {
    fault: "writes every abandon down as a release",
    rules: () => ({
      abandon(found, token, as, now) {
        const step = abandonRecord(found, token, as, now);
        const history = step.write?.history?.replace(as, "released");
        return step.write === undefined ? step : { ...step, write: { ...step.write, history } };
      },
    }),
    caught: [UNKNOWN, UNRUN, BY_FENCE],
  },
  {
    fault: "writes the end down again when an abandon is repeated",
    rules: () => ({
      abandon(found, token, as, now) {
        const step = abandonRecord(found, token, as, now);
        if (!step.answer || step.write !== undefined || found === undefined) return step;
        const history = `${token}\n 0 0 ${now} ${as}`;
        return { answer: true, write: { ...found, history } };
      },
    }),
    caught: [ABANDONED_AGAIN],
  },
  {
    fault: "counts no renewal",
    rules: () => ({
      renew(found, token, leaseMs, now) {
        const step = renewRecord(found, token, leaseMs, now);
        return step.write === undefined
          ? step
          : { ...step, write: { ...step.write, history: found?.history } };
      },
    }),
    caught: [RENEWALS, LAPSED_RENEWALS, COMPLETED_RENEWALS, CLAIMED_AGAIN],
  },
  {
    fault: "counts one renewal at most",
    rules: () => ({
      renew(found, token, leaseMs, now) {
        const step = renewRecord(found, token, leaseMs, now);
        if (step.write?.history === undefined) return step;
        return { ...step, write: { ...step.write, history: step.write.history.replace("\n 2 ", "\n 1 ") } };
      },
    }),
    caught: [RENEWALS],
  },
  {
    fault: "counts the renewals of tokens that were overtaken",
    rules: () => ({
      renew(found, token, leaseMs, now) {
        const step = renewRecord(found, token, leaseMs, now);
        if (step.answer || found === undefined || found.token === token) return step;
        return { answer: false, write: { ...found, history: `${found.token}\n 1 ${now};1 1 1 r` } };
      },
    }),
    caught: [REFUSED],
  },
  {
    fault: "drops the history with the completion",
    rules: completing((write) => ({ ...write, history: undefined })),
    caught: [COMPLETED, COMPLETED_RENEWALS],
  },
  {
    fault: "takes a repeated claim for another attempt",
    rules: writing((write, { found, request, answer }) =>
      isNew(answer) && found?.token === request.token
        ? { ...write, history: nextHistory(found, request.token) }
        : write,
    ),
    caught: [CLAIMED_AGAIN],
  },
  {
    fault: "takes every claim for an attempt",
    rules: deciding((decision, found) =>
      isNew(decision.answer) || decision.write !== undefined || found === undefined
        ? decision
        : { ...decision, write: { ...found, history: nextHistory(found, found.token) } },
    ),
    caught: [NOT_GRANTED],
  },
  {
    fault: "carries the history of an expired record on",
    rules: writing((write, { found, request, answer, now }) =>
      isNew(answer) && found !== undefined && isExpired(found, now)
        ? { ...write, history: nextHistory(found, request.token) }
        : write,
    ),
    caught: [RETENTION],
  },
  {
    fault: "begins a record with the history of the key that was claimed before",
    rules: () => {
      let last: Kept | undefined;
      return {
        claim(found, request, now, nextFence) {
          const { answer, write } = claimRecord(found, request, now, nextFence);
          if (write === undefined) return { answer };
          const history =
            found === undefined && last !== undefined ? nextHistory(last, request.token) : write.history;
          last = { ...write, history };
          return { answer, write: last };
        },
      };
    },
    caught: [ANOTHER_KEY, FORGOTTEN],
  },
  {
    fault: "shows an attempt only after it has ended",
    rules: showing((attempts) => attempts.filter(({ ended }) => ended !== undefined)),
    caught: [
      RUNNING,
      RELEASED,
      UNKNOWN,
      UNRUN,
      LAPSED,
      BY_FENCE,
      RENEWALS,
      LAPSED_RENEWALS,
      REFUSED,
      CLAIMED_AGAIN,
      BOUNDED,
      RETENTION,
      ANOTHER_KEY,
      REOPENED,
      FORGOTTEN,
    ],
  },
  {
    fault: "shows no end of a lapsed attempt",
    rules: showing((attempts) =>
      attempts.map((each) => (each.ended === "lapsed" ? { ...each, endedAt: undefined } : each)),
    ),
    caught: [LAPSED],
  },
  {
    fault: "shows a completed attempt as running",
    rules: showing((attempts) =>
      attempts.map((each) =>
        each.ended === "completed" ? { ...each, ended: undefined, endedAt: undefined } : each,
      ),
    ),
    caught: [COMPLETED, COMPLETED_RENEWALS, NOT_GRANTED, REOPENED],
  },
  {
    fault: "takes a reopened key for a released one",
    rules: () => ({
      forget(found, request, now) {
        const step = forgetRecord(found, request, now);
        const write = step.write as Kept | undefined;
        return write?.state === "released" ? { ...step, write: { ...write, history: found?.history } } : step;
      },
    }),
    caught: [REOPENED],
  },
];
