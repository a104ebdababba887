/** Stores that let a key be taken over by too many, or by the wrong ones, or by nobody. */
import { claimRecord, stateOf } from "../../../src/core/record.ts";
import { answering, deciding, type Fault, isNew, judging, living, soon, writing } from "../wrong-rules.ts";

export const takeoverIsSingle: readonly Fault[] = [
  {
    fault: "looks whether the key has lapsed and then, in a second step, takes it over",
    rules: () => ({
      pause: (step, found, now) =>
        step === "claim" && living(found, now) && stateOf(found, now) === "lapsed" ? soon() : undefined,
    }),
    caught: [
      "of fifty claims of a lapsed key at once one takes over",
      "of fifty takeovers by the same fence at once one is new",
    ],
  },
  {
    fault: "counts a takeover by the fence as a first attempt",
    rules: deciding((decision, found, request) =>
      isNew(decision.answer) && request.takeover !== undefined && found?.token !== request.token
        ? { ...decision, answer: { ...decision.answer, number: 1, tookOver: false } }
        : decision,
    ),
    caught: ["a takeover by the fence of a held record is new", "a takeover that holds is new as well"],
  },
  {
    fault: "refuses a takeover that holds",
    rules: deciding((decision, found, request) =>
      isNew(decision.answer) &&
      request.takeover !== undefined &&
      request.hold &&
      found?.token !== request.token
        ? answering({ status: "unknown", fence: request.takeover })
        : decision,
    ),
    caught: ["a takeover that holds is new as well"],
  },
  {
    fault: "compares fences as rounded numbers",
    rules: judging((found, { token, takeover = 0 }) =>
      found.token !== token && Math.fround(takeover) === Math.fround(found.fence)
        ? { ...found, fence: takeover }
        : found,
    ),
    caught: [
      "a takeover by another fence is unknown, with the fence to look at",
      "a takeover by another fence loses even where the record is not held",
      "a second decision by the same fence loses",
      "an unknown answer changes nothing",
    ],
  },
  {
    fault: "takes over by an earlier fence too",
    rules: judging((found, { token, takeover = found.fence }) =>
      found.token !== token && takeover < found.fence ? { ...found, fence: takeover } : found,
    ),
    caught: [
      "a takeover by another fence is unknown, with the fence to look at",
      "a second decision by the same fence loses",
    ],
  },
  {
    fault: "walks over a held record",
    rules: judging((found, request, now) =>
      !found.spent && found.token !== request.token && now < found.keptUntil
        ? { ...found, hold: false }
        : found,
    ),
    caught: [
      "a held record that lapsed is unknown to every claim without takeover",
      "an unknown answer changes nothing",
      "a held record stays held when it is taken over",
      "a held record stays held when the attempt that took it over never ran",
    ],
  },
  {
    fault: "does not ask whether the claim holds",
    rules: () => ({
      claim: (found, request, now, nextFence) =>
        claimRecord(
          found,
          living(found, now) && stateOf(found, now) === "lapsed" ? { ...request, hold: false } : request,
          now,
          nextFence,
        ),
    }),
    caught: ["a claim that holds finds a lapsed record unknown"],
  },
  {
    fault: "counts the claims that it answers unknown",
    rules: deciding((decision, found) =>
      decision.answer.status === "unknown" && found !== undefined
        ? { ...decision, write: { ...found, number: found.number + 1 } }
        : decision,
    ),
    caught: ["an unknown answer changes nothing"],
  },
  {
    fault: "lets a takeover end the hold",
    rules: writing((write, { found, request }) =>
      request.takeover !== undefined && found?.token !== request.token
        ? { ...write, hold: request.hold }
        : write,
    ),
    caught: [
      "a held record stays held when it is taken over",
      "a held record stays held when the attempt that took it over never ran",
    ],
  },
  {
    fault: "takes a pending key over by its fence",
    rules: judging((found, request, now) =>
      found.fence === request.takeover && found.state === "pending"
        ? { ...found, leaseEndsAt: Math.min(found.leaseEndsAt, now) }
        : found,
    ),
    caught: ["a takeover does not take a pending key from its owner"],
  },
  {
    fault: "takes an absent key over",
    rules: () => ({
      claim: (found, { takeover, ...request }, now, nextFence) =>
        claimRecord(found, found === undefined ? request : { ...request, takeover }, now, nextFence),
    }),
    caught: ["a takeover finds nothing where there is no record"],
  },
  {
    fault: "takes a released key over",
    rules: judging((found, request) =>
      found.state === "released" && request.takeover === found.fence ? { ...found, state: "pending" } : found,
    ),
    caught: ["a takeover finds nothing to decide on a released key"],
  },
];
