/** Stores that mistake how an attempt gave up. */
import { abandonRecord } from "../../../src/core/record.ts";
import { answering, deciding, type Fault, isNew, judging, living, reading, writing } from "../wrong-rules.ts";

export const abandonFrees: readonly Fault[] = [
  {
    fault: "says that a released key was taken over",
    rules: deciding((decision, found, _request, now) =>
      isNew(decision.answer) && living(found, now) && found.state === "released"
        ? { ...decision, answer: { ...decision.answer, tookOver: true } }
        : decision,
    ),
    caught: [
      "a released key is new to the next claim, which counts on",
      "a first attempt that never ran leaves its key released",
      "a successor that releases frees the key",
    ],
  },
  {
    fault: "counts the attempts at a released key from one",
    rules: deciding((decision, found, _request, now) =>
      isNew(decision.answer) && living(found, now) && found.state === "released"
        ? { ...decision, answer: { ...decision.answer, number: 1 } }
        : decision,
    ),
    caught: [
      "a released key is new to the next claim, which counts on",
      "a first attempt that never ran leaves its key released",
    ],
  },
  {
    fault: "shows a lease on what is released",
    rules: reading((shown, record, now) =>
      shown.state === "released" ? { ...shown, leaseLeftMs: record.leaseEndsAt - now } : shown,
    ),
    caught: ["a released key reads as released"],
  },
  {
    fault: "takes what was given up as unknown for released",
    rules: deciding((decision, found) =>
      isNew(decision.answer) && found?.state === "pending" && found.spent
        ? { ...decision, answer: { ...decision.answer, tookOver: false } }
        : decision,
    ),
    caught: [
      "an attempt that gives up as unknown lapses at once",
      "a successor that never ran leaves the key lapsed again",
      "a successor that repeated its claim and never ran leaves the key lapsed again",
    ],
  },
  {
    fault: "shows what was given up as unknown as pending until its lease ends",
    rules: reading((shown, record, now) =>
      shown.state === "lapsed" && now < record.claimedAt + record.leaseMs
        ? { ...shown, state: "pending" }
        : shown,
    ),
    caught: ["a key given up as unknown reads as lapsed"],
  },
  {
    fault: "asks for no decision where the attempt itself gave up as unknown",
    rules: judging((found, request) =>
      found.spent && !found.tookOver && !request.hold ? { ...found, hold: false } : found,
    ),
    caught: ["a held attempt that gives up as unknown waits for a decision"],
  },
  {
    fault: "asks for a decision on a released key that was held",
    rules: deciding((decision, found, _request, now) =>
      isNew(decision.answer) && living(found, now) && found.state === "released" && found.hold
        ? answering({ status: "unknown", fence: found.fence })
        : decision,
    ),
    caught: ["a held attempt that is released frees its key", "a successor that releases frees the key"],
  },
  {
    fault: "releases whatever never ran",
    rules: () => ({
      abandon: (found, token, as, now) =>
        abandonRecord(found && { ...found, tookOver: found.tookOver && found.hold }, token, as, now),
    }),
    caught: [
      "a successor that never ran leaves the key lapsed again",
      "a successor that repeated its claim and never ran leaves the key lapsed again",
    ],
  },
  {
    fault: "forgets with a repeated claim that it took over",
    rules: writing((write, { found, request }) =>
      found?.token === request.token && found.state === "pending" ? { ...write, tookOver: false } : write,
    ),
    caught: ["a successor that repeated its claim and never ran leaves the key lapsed again"],
  },
  {
    fault: "refuses a repeated abandon",
    rules: () => ({
      abandon: (found, token, as, now) =>
        found?.spent ? { answer: false } : abandonRecord(found, token, as, now),
    }),
    caught: [
      "a repeated abandon as released is true and changes nothing",
      "a repeated abandon as unknown is true and changes nothing",
      "a repeated abandon as unrun is true and changes nothing",
      "a released key stays released whatever its token abandons it as later",
    ],
  },
  {
    fault: "lets the last abandon count",
    rules: () => ({
      abandon: (found, token, as, now) =>
        living(found, now) && found.state !== "completed"
          ? abandonRecord({ ...found, spent: false }, token, as, now)
          : abandonRecord(found, token, as, now),
    }),
    caught: ["a released key stays released whatever its token abandons it as later"],
  },
];
