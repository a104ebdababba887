/** Stores that keep a record for another time than they were asked to. */
import { isExpired } from "../../../src/core/record.ts";
import {
  abandoning,
  completing,
  deciding,
  type Fault,
  forgetting,
  isNew,
  judging,
  renewing,
  undying,
  writing,
} from "../wrong-rules.ts";

const HOUR_MS = 3_600_000;

export const retentionEnds: readonly Fault[] = [
  {
    fault: "forgets an outcome when less than half of its retention has passed",
    rules: judging((found, _request, now) =>
      found.completedAt !== undefined && now - found.completedAt >= 0.4 * found.retentionMs
        ? undefined
        : found,
    ),
    caught: ["a completed key answers until its retention ends", "a retention of 400 days is kept"],
  },
  {
    fault: "keeps an outcome for a millisecond too long",
    rules: judging((found) => ({ ...found, keptUntil: found.keptUntil + 1 })),
    caught: ["a completed key is free from the moment its retention ends"],
  },
  {
    fault: "counts retention from the claim",
    rules: completing((write) => ({ ...write, keptUntil: write.claimedAt + write.retentionMs })),
    caught: ["retention counts from the completion"],
  },
  {
    fault: "keeps no outcome longer than an hour",
    rules: completing((write, now) => ({ ...write, keptUntil: Math.min(write.keptUntil, now + HOUR_MS) })),
    caught: ["the retention that counts is the one of the completion", "a retention of 400 days is kept"],
  },
  {
    fault: "keeps milliseconds in 32 bits",
    rules: completing((write, now) => ({
      ...write,
      keptUntil: Math.min(write.keptUntil, now + 2 ** 31 - 1),
    })),
    caught: ["a retention of 400 days is kept"],
  },
  {
    fault: "starts the retention again with each replay",
    rules: deciding((decision, found, _request, now) =>
      decision.answer.status === "completed" && found !== undefined
        ? { ...decision, write: { ...found, keptUntil: now + found.retentionMs } }
        : decision,
    ),
    caught: ["asking for an outcome does not lengthen its retention"],
  },
  {
    fault: "counts the retention of a released key from its release",
    rules: abandoning((write, now) =>
      write.state === "released" ? { ...write, keptUntil: now + write.retentionMs } : write,
    ),
    caught: ["a released key is kept for its retention past the lease that it had"],
  },
  {
    fault: "keeps what was not completed for half an hour at most",
    rules: writing((write, { answer }) =>
      isNew(answer)
        ? { ...write, keptUntil: Math.min(write.keptUntil, write.leaseEndsAt + HOUR_MS / 2) }
        : write,
    ),
    caught: [
      "a released key is kept for its retention past the lease that it had",
      "a lapsed key is kept for its retention past its lease",
      "a renewed key is kept for its retention past the renewed lease",
    ],
  },
  {
    fault: "does not move the retention when the lease is renewed",
    rules: renewing((write, found) => ({
      ...write,
      keptUntil: Math.max(found.keptUntil, write.leaseEndsAt),
    })),
    caught: ["a renewed key is kept for its retention past the renewed lease"],
  },
  {
    fault: "counts attempts on past retention",
    rules: deciding((decision, found, _request, now) =>
      isNew(decision.answer) && found !== undefined && isExpired(found, now)
        ? { ...decision, answer: { ...decision.answer, number: found.number + 1 } }
        : decision,
    ),
    caught: [
      "a completed key is free from the moment its retention ends",
      "past its retention a released key starts at number 1",
      "past its retention a lapsed key starts at number 1",
      "a held key that was completed ends like any other",
    ],
  },
  {
    fault: "lets a held key be claimed when its retention has passed",
    rules: judging((found, _request, now) =>
      found.state === "pending" && found.hold && now >= found.keptUntil ? undefined : found,
    ),
    caught: ["a held key that lapsed is kept until it is decided"],
  },
  {
    fault: "keeps for ever what was ever held",
    rules: judging((found, _request, now) => (found.hold ? undying(found, now) : found)),
    caught: ["a held key that was completed ends like any other"],
  },
  {
    fault: "starts the retention again when a record is forgotten",
    rules: forgetting((marker, _found, now) => ({ ...marker, keptUntil: now + HOUR_MS })),
    caught: ["a forgotten outcome counts as done until its retention ends"],
  },
];
