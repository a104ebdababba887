/** Stores that end a lease too early, too late, or never. */
import { claimRecord } from "../../../src/core/record.ts";
import { deciding, type Fault, isNew, judging, reading, renewing, writing } from "../wrong-rules.ts";

export const leaseEnds: readonly Fault[] = [
  {
    fault: "lets others in when less than half of the lease has passed",
    rules: judging((found, _request, now) =>
      now - found.claimedAt >= 0.4 * found.leaseMs && found.leaseMs + found.claimedAt === found.leaseEndsAt
        ? { ...found, leaseEndsAt: Math.min(found.leaseEndsAt, now) }
        : found,
    ),
    caught: ["a key is its owner's until the lease ends"],
  },
  {
    fault: "holds a lease for a millisecond too long",
    rules: judging((found) => ({ ...found, leaseEndsAt: found.leaseEndsAt + 1 })),
    caught: [
      "a key can be had from the moment its lease ends",
      "a pending answer says how much of the lease is left",
      "an attempt that takes over has the lease that it asked for",
      "when the clock went back, the key can be had one lease after somebody asked",
    ],
  },
  {
    fault: "answers pending with the whole lease",
    rules: deciding((decision, found) =>
      decision.answer.status === "pending" && decision.answer.leaseLeftMs > 0 && found !== undefined
        ? { ...decision, answer: { ...decision.answer, leaseLeftMs: found.leaseMs } }
        : decision,
    ),
    caught: ["a pending answer says how much of the lease is left"],
  },
  {
    fault: "answers pending with the time since the last renewal",
    rules: deciding((decision, found, _request, now) =>
      decision.answer.status === "pending" && decision.answer.leaseLeftMs > 0 && found !== undefined
        ? { ...decision, answer: { ...decision.answer, elapsedMs: now - found.leaseEndsAt + found.leaseMs } }
        : decision,
    ),
    caught: ["a pending answer says how long the attempt has run, not how long ago it renewed"],
  },
  {
    fault: "answers pending with the time since the first attempt of the key",
    rules: () => {
      const begun = new Map<string, number>();
      return {
        claim: (found, request, now, nextFence) => {
          const decision = claimRecord(found, request, now, nextFence);
          if (isNew(decision.answer) && !begun.has(request.id)) begun.set(request.id, now);
          const elapsedMs = now - (begun.get(request.id) ?? now);
          return decision.answer.status === "pending" && decision.answer.leaseLeftMs > 0
            ? { ...decision, answer: { ...decision.answer, elapsedMs } }
            : decision;
        },
      };
    },
    caught: ["an attempt that takes over counts its time anew"],
  },
  {
    fault: "renews for no longer than the claim was given",
    rules: renewing((write, found, now) => {
      const leaseMs = Math.min(write.leaseMs, found.leaseMs);
      return { ...write, leaseMs, leaseEndsAt: now + leaseMs };
    }),
    caught: [
      "renewing gives the lease that was asked for",
      "a long renewal is not taken for a clock that went back",
      "when the clock went back, the lease that counts is the last one written",
    ],
  },
  {
    fault: "counts a renewed lease from the claim",
    rules: renewing((write, found, now) =>
      now < found.leaseEndsAt ? { ...write, leaseEndsAt: write.claimedAt + write.leaseMs } : write,
    ),
    caught: ["a renewed lease counts from the renewal"],
  },
  {
    fault: "lets a renewal only lengthen the lease",
    rules: renewing((write, found) => ({
      ...write,
      leaseEndsAt: Math.max(found.leaseEndsAt, write.leaseEndsAt),
    })),
    caught: ["a renewed lease ends too"],
  },
  {
    fault: "shows the state that was written, whatever the time",
    rules: reading((shown, record, now) =>
      shown.state === "lapsed" && !record.spent
        ? { ...shown, state: "pending", leaseLeftMs: record.leaseEndsAt - now }
        : shown,
    ),
    caught: ["a lease that has ended reads as lapsed"],
  },
  {
    fault: "touches the lease whenever somebody asks",
    rules: deciding((decision, found, _request, now) =>
      decision.answer.status === "pending" && found !== undefined && decision.answer.leaseLeftMs > 0
        ? { write: { ...found, leaseEndsAt: now + found.leaseMs }, ...decision }
        : decision,
    ),
    caught: ["waiting for a key does not lengthen its lease"],
  },
  {
    fault: "gives the attempt that takes over the lease of the attempt before",
    rules: writing((write, { found, request, answer }) =>
      found?.state === "pending" && found.token !== request.token && isNew(answer)
        ? { ...write, leaseMs: found.leaseMs, leaseEndsAt: write.claimedAt + found.leaseMs }
        : write,
    ),
    caught: ["an attempt that takes over has the lease that it asked for"],
  },
  {
    fault: "writes a deadline down to the lease of the claim, though it was renewed",
    rules: () => {
      const claimed = new Map<string, number>();
      return {
        claim: (found, request, now, nextFence) => {
          const leaseMs = claimed.get(request.id) ?? request.leaseMs;
          const decision = claimRecord(found && { ...found, leaseMs }, request, now, nextFence);
          if (isNew(decision.answer)) claimed.set(request.id, request.leaseMs);
          return decision;
        },
      };
    },
    caught: [
      "renewing gives the lease that was asked for",
      "a long renewal is not taken for a clock that went back",
      "when the clock went back, the lease that counts is the last one written",
    ],
  },
  {
    fault: "never notices that the clock went back",
    rules: judging((found, request) =>
      found.token === request.token ? found : { ...found, leaseMs: Number.MAX_SAFE_INTEGER },
    ),
    caught: [
      "when the clock went back, the key is not handed over at once",
      "when the clock went back, the key can be had one lease after somebody asked",
      "when the clock went back, the lease that counts is the last one written",
    ],
  },
  {
    fault: "takes a clock that went back for the end of every lease",
    rules: judging((found, _request, now) =>
      found.leaseEndsAt - now > found.leaseMs + 1_000 ? { ...found, leaseEndsAt: now } : found,
    ),
    caught: [
      "when the clock went back, the key is not handed over at once",
      "when the clock went back, the lease that counts is the last one written",
      "when the clock went back, the owner may still complete",
    ],
  },
  {
    fault: "makes the token that finds that the clock went back the owner",
    rules: writing((write, { request, answer }) =>
      answer.status === "pending" ? { ...write, token: request.token } : write,
    ),
    caught: ["when the clock went back, the owner may still complete"],
  },
];
