/** Stores that do not know a token again when it comes back. */
import { hasSteps } from "../../../src/core/kept-steps.ts";
import { abandonRecord, completeRecord, renewRecord, stateOf } from "../../../src/core/record.ts";
import { answering, deciding, type Fault, isNew, judging, living, writing } from "../wrong-rules.ts";

export const ownClaimRecognised: readonly Fault[] = [
  {
    fault: "takes the repeat of a claim for a stranger's",
    rules: judging((found, request) =>
      found.token === request.token && found.state === "pending" && !found.spent && !hasSteps(found)
        ? { ...found, token: "a stranger's" }
        : found,
    ),
    caught: [
      "a repeated claim is new again, with the same fence and number",
      "a claim sent twice at once owns the key once",
      "a repeated claim restarts the lease",
      "a lapsed attempt that claims again goes on with its fence and number",
      "a held attempt that lapsed may claim again",
      "a repeated takeover is recognised by its token",
      "a repeated claim still says that it took over",
    ],
  },
  {
    fault: "does not restart the lease of a repeated claim",
    rules: writing((write, { found, request }) =>
      found?.token === request.token && found.state === "pending"
        ? { ...write, leaseMs: found.leaseMs, leaseEndsAt: found.leaseEndsAt }
        : write,
    ),
    caught: ["a repeated claim restarts the lease", "a lapsed attempt that claims again has a lease again"],
  },
  {
    fault: "lets the attempt that lapsed take over from itself",
    rules: judging((found, request, now) =>
      found.token === request.token && !found.spent && stateOf(found, now) === "lapsed"
        ? { ...found, token: "a stranger's", hold: false }
        : found,
    ),
    caught: [
      "a lapsed attempt that claims again goes on with its fence and number",
      "a held attempt that lapsed may claim again",
    ],
  },
  {
    fault: "refuses the completion of an attempt that lapsed",
    rules: () => ({
      complete: (found, request, now) =>
        living(found, now) && stateOf(found, now) === "lapsed"
          ? { answer: false }
          : completeRecord(found, request, now),
    }),
    caught: ["a lapsed attempt may still complete", "an attempt that gave up as unknown may still complete"],
  },
  {
    fault: "refuses the renewal of an attempt that lapsed",
    rules: () => ({
      renew: (found, token, leaseMs, now) =>
        living(found, now) && stateOf(found, now) === "lapsed"
          ? { answer: false }
          : renewRecord(found, token, leaseMs, now),
    }),
    caught: ["a lapsed attempt may still renew"],
  },
  {
    fault: "refuses the abandon of an attempt that lapsed",
    rules: () => ({
      abandon: (found, token, as, now) =>
        living(found, now) && !found.spent && stateOf(found, now) === "lapsed"
          ? { answer: false }
          : abandonRecord(found, token, as, now),
    }),
    caught: [
      "a lapsed attempt may still abandon as released",
      "a lapsed attempt may still abandon as unknown",
      "a lapsed attempt may still abandon as unrun",
    ],
  },
  {
    fault: "looks for the fence of a takeover before it looks for the token",
    rules: judging((found, request) =>
      request.takeover !== undefined && found.token === request.token
        ? { ...found, token: "a stranger's" }
        : found,
    ),
    caught: ["a repeated takeover is recognised by its token"],
  },
  {
    fault: "does not repeat that the claim took over",
    rules: deciding((decision, found, request) =>
      isNew(decision.answer) && found?.token === request.token
        ? { ...decision, answer: { ...decision.answer, tookOver: false } }
        : decision,
    ),
    caught: ["a repeated claim still says that it took over"],
  },
  {
    fault: "lets a repeated claim undo its hold",
    rules: writing((write, { found, request }) =>
      found?.token === request.token ? { ...write, hold: request.hold } : write,
    ),
    caught: ["a repeated claim leaves its record held"],
  },
  {
    fault: "asks whether the record is held before it looks at the token",
    rules: deciding((decision, found, _request, now) =>
      living(found, now) &&
      found.hold &&
      stateOf(found, now) === "lapsed" &&
      isNew(decision.answer) &&
      !decision.answer.tookOver
        ? answering({ status: "unknown", fence: found.fence })
        : decision,
    ),
    caught: ["a held attempt that lapsed may claim again"],
  },
];
