/** Stores whose fences do not tell a later attempt from an earlier one. */
import { claimRecord, isExpired } from "../../../src/core/record.ts";
import { deciding, type Fault, isNew, reading } from "../wrong-rules.ts";

export const fenceGrows: readonly Fault[] = [
  {
    fault: "counts fences in halves",
    rules: () => ({ nextFence: (after, now) => Math.max(after + 1, now * 1_000) + 0.5 }),
    caught: ["a fence is a whole number that JavaScript holds exactly"],
  },
  {
    fault: "counts fences from one",
    rules: () => ({ nextFence: (after) => after + 1 }),
    caught: ["a fence is not below the store's clock in microseconds"],
  },
  {
    fault: "takes the clock for a fence, whatever the last one was",
    rules: () => ({ nextFence: (_after, now) => Math.floor(now * 1_000) }),
    caught: [
      "a fence grows each time a released key is claimed",
      "a fence grows each time a lapsed key is taken over",
      "a fence grows over a record that was reopened",
      "a fence grows though the clock went back",
    ],
  },
  {
    fault: "knows no fence but the one in the record",
    rules: () => ({
      claim: (found, request, now) =>
        claimRecord(found, request, now, (after) => (after === 0 ? 8e15 : after + 1)),
    }),
    caught: ["a fence grows past retention and purge", "a fence grows over a record that was forgotten"],
  },
  {
    fault: "starts below the last fence when a record is past its time",
    rules: deciding((decision, found, _request, now) => {
      if (!isNew(decision.answer) || decision.write === undefined) return decision;
      if (found === undefined || !isExpired(found, now)) return decision;
      const fence = found.fence - 1;
      return { answer: { ...decision.answer, fence }, write: { ...decision.write, fence } };
    }),
    caught: ["a fence grows past retention"],
  },
  {
    fault: "rounds the fence that it shows",
    rules: reading((shown) => ({ ...shown, fence: Math.fround(shown.fence) })),
    caught: ["the fence that is read is the one that was given"],
  },
];
