/** Stores that reopen what is completed, or do not answer with it. */
import { abandonRecord, claimRecord, forgetRecord, renewRecord } from "../../../src/core/record.ts";
import { answering, deciding, type Fault, forgetting, judging, living, reading } from "../wrong-rules.ts";

export const completeIsFinal: readonly Fault[] = [
  {
    fault: "shows a lease on what is completed",
    rules: reading((shown, record, now) =>
      shown.state === "completed" ? { ...shown, leaseLeftMs: record.leaseEndsAt - now } : shown,
    ),
    caught: ["what its owner completed reads as completed"],
  },
  {
    fault: "uses an outcome up after five replays",
    rules: () => {
      const replays = new Map<string, number>();
      return {
        claim: (found, request, now, nextFence) => {
          const decision = claimRecord(found, request, now, nextFence);
          if (decision.answer.status !== "completed") return decision;
          const count = (replays.get(request.id) ?? 0) + 1;
          replays.set(request.id, count);
          return count > 5 ? claimRecord(undefined, request, now, nextFence) : decision;
        },
      };
    },
    caught: ["a completed key answers everyone who asks with its outcome"],
  },
  {
    fault: "lets the token that completed claim again",
    rules: deciding((decision, found, request) =>
      decision.answer.status === "completed" && found !== undefined && found.token === request.token
        ? answering({ status: "new", fence: found.fence, number: found.number, tookOver: found.tookOver })
        : decision,
    ),
    caught: ["a completed key answers the token that completed it"],
  },
  {
    fault: "holds a claim back though the outcome is known",
    rules: deciding((decision, found, request) =>
      decision.answer.status === "completed" && found !== undefined && request.hold
        ? answering({ status: "unknown", fence: found.fence })
        : decision,
    ),
    caught: ["a completed key answers a claim that holds"],
  },
  {
    fault: "hands a completed key to a takeover that names its fence",
    rules: judging((found, request) =>
      found.state === "completed" && request.takeover === found.fence
        ? { ...found, state: "pending", spent: true }
        : found,
    ),
    caught: ["a completed key answers a takeover by its fence"],
  },
  {
    fault: "asks for a decision on a held key until its lease ends, though it was completed",
    rules: deciding((decision, found, _request, now) =>
      decision.answer.status === "completed" && found?.hold && now < found.leaseEndsAt
        ? answering({ status: "unknown", fence: found.fence })
        : decision,
    ),
    caught: ["a held attempt that completes is decided"],
  },
  {
    fault: "renews what is completed",
    rules: () => ({
      renew: (found, token, leaseMs, now) =>
        renewRecord(
          found?.state === "completed" && living(found, now) ? { ...found, state: "pending" } : found,
          token,
          leaseMs,
          now,
        ),
    }),
    caught: ["a completed key is not renewed"],
  },
  {
    fault: "abandons what is completed",
    rules: () => ({
      abandon: (found, token, as, now) =>
        abandonRecord(
          found?.state === "completed" && living(found, now) ? { ...found, state: "pending" } : found,
          token,
          as,
          now,
        ),
    }),
    caught: [
      "a completed key is not abandoned as released",
      "a completed key is not abandoned as unknown",
      "a completed key is not abandoned as unrun",
    ],
  },
  {
    fault: "empties the outcome of what is forgotten",
    rules: forgetting((marker) => ({ ...marker, outcome: "" })),
    caught: ["a forgotten outcome still counts as done"],
  },
  {
    fault: "keeps the parts of what is forgotten",
    rules: forgetting((marker, found) => ({ ...marker, parts: found.parts })),
    caught: ["a forgotten record shows no parts"],
  },
  {
    fault: "leaves the outcome in what is reopened",
    rules: () => ({
      forget: (found, request, now) => {
        const step = forgetRecord(found, request, now);
        if (step.write?.state !== "released") return step;
        return { ...step, write: { ...step.write, outcome: found?.outcome } };
      },
    }),
    caught: ["reopen frees a completed key"],
  },
  {
    fault: "keeps the marker of a forgotten outcome when it is reopened",
    rules: () => ({
      forget: (found, request, now) =>
        found?.state === "completed" && found.parts === undefined
          ? { answer: false }
          : forgetRecord(found, request, now),
    }),
    caught: ["reopen frees a key whose outcome was forgotten"],
  },
  {
    fault: "reopens what is completed, whatever the fence",
    rules: () => ({
      forget: (found, request, now) =>
        forgetRecord(
          found,
          request.reopen && found?.state === "completed" ? { ...request, fence: found.fence } : request,
          now,
        ),
    }),
    caught: ["reopen by another fence changes nothing"],
  },
];
