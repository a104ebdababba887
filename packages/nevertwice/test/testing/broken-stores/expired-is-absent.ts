/** Stores in which what is past its time is still there, or what has lapsed is not. */
import {
  abandonRecord,
  completeRecord,
  forgetRecord,
  isExpired,
  renewRecord,
} from "../../../src/core/record.ts";
import { toDetails } from "../../../src/core/record-details.ts";
import { RULES } from "../rule-store.ts";
import { deciding, type Fault, isNew, judging, undying, writing } from "../wrong-rules.ts";

export const expiredIsAbsent: readonly Fault[] = [
  {
    fault: "reads what is not purged yet",
    rules: () => ({ read: toDetails }),
    caught: [
      "a completed record past its time is not read",
      "a released record past its time is not read",
      "a lapsed record past its time is not read",
      "past its time a key is not there to be taken over",
    ],
  },
  {
    fault: "completes past retention",
    rules: () => ({ complete: (found, request, now) => completeRecord(undying(found, now), request, now) }),
    caught: [
      "a completed record past its time takes no step of its token",
      "a lapsed record past its time takes no step of its token",
    ],
  },
  {
    fault: "abandons past retention",
    rules: () => ({ abandon: (found, token, as, now) => abandonRecord(undying(found, now), token, as, now) }),
    caught: [
      "a released record past its time takes no step of its token",
      "a lapsed record past its time takes no step of its token",
    ],
  },
  {
    fault: "renews past retention",
    rules: () => ({
      renew: (found, token, leaseMs, now) => renewRecord(undying(found, now), token, leaseMs, now),
    }),
    caught: ["a lapsed record past its time takes no step of its token"],
  },
  {
    fault: "says that it took over what was past its time",
    rules: deciding((decision, found, _request, now) =>
      isNew(decision.answer) && found !== undefined && isExpired(found, now)
        ? { ...decision, answer: { ...decision.answer, tookOver: true } }
        : decision,
    ),
    caught: [
      "a completed record past its time leaves nothing to the next",
      "a released record past its time leaves nothing to the next",
      "a lapsed record past its time leaves nothing to the next",
    ],
  },
  {
    fault: "leaves the old outcome in the new record",
    rules: writing((write, { found, now }) =>
      found !== undefined && isExpired(found, now) ? { ...write, outcome: found.outcome } : write,
    ),
    caught: ["a completed record past its time leaves nothing to the next"],
  },
  {
    fault: "recognises a token past retention",
    rules: judging((found, request, now) => (found.token === request.token ? undying(found, now) : found)),
    caught: ["past its time a key is new even to the token that had it"],
  },
  {
    fault: "lets what is past its time be taken over",
    rules: judging((found, request, now) => (found.fence === request.takeover ? undying(found, now) : found)),
    caught: ["past its time a key is not there to be taken over"],
  },
  {
    fault: "says that it forgot what was past its time",
    rules: () => ({ forget: (found, request, now) => forgetRecord(undying(found, now), request, now) }),
    caught: ["past its time a record is not there to be forgotten"],
  },
  {
    fault: "lists what is not purged yet",
    rules: () => ({
      list: (records, request, now) =>
        RULES.list(
          records.map((record) => undying(record, now)),
          request,
          now,
        ),
    }),
    caught: ["past its time a record is not listed"],
  },
  {
    fault: "takes a key whose lease has ended for a new one",
    rules: deciding((decision, found, request) =>
      isNew(decision.answer) &&
      found?.state === "pending" &&
      !found.spent &&
      found.token !== request.token &&
      request.takeover === undefined
        ? { ...decision, answer: { ...decision.answer, number: 1, tookOver: false } }
        : decision,
    ),
    caught: ["a lapsed record is not absent"],
  },
  {
    fault: "forgets what has no outcome, and says that it did not",
    wrap: (store) => ({
      ...store,
      async forget(request) {
        const record = await store.read(request.id);
        return (await store.forget?.(request)) === true && record?.state === "completed";
      },
    }),
    caught: ["a lapsed record that is forgotten is absent", "a released record that is forgotten is absent"],
  },
  {
    fault: "says that it forgot what was never there",
    wrap: (store) => ({
      ...store,
      async forget(request) {
        return request.fence === 1 || (await store.forget?.(request)) === true;
      },
    }),
    caught: ["what was never there is not forgotten"],
  },
];
