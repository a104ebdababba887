/** Stores in which a repeated complete counts. */
import { completeRecord } from "../../../src/core/record.ts";
import { completingAgain, type Fault, soon } from "../wrong-rules.ts";

export const completeTwiceIsOnce: readonly Fault[] = [
  {
    fault: "refuses a repeated complete",
    rules: () => ({
      complete: (found, request, now) =>
        found?.state === "completed" ? { answer: false } : completeRecord(found, request, now),
    }),
    caught: [
      "a repeated complete is true",
      "of many completes at once one outcome stands from the first answer on",
      "a repeated complete does not bring back what was forgotten",
    ],
  },
  {
    fault: "keeps the last outcome",
    rules: completingAgain((found, { outcome }) => ({ ...found, outcome })),
    caught: [
      "a repeated complete keeps the first outcome",
      "a repeated complete does not bring back what was forgotten",
    ],
  },
  {
    fault: "counts retention from the last complete",
    rules: completingAgain((found, { retentionMs }, now) => ({ ...found, keptUntil: now + retentionMs })),
    caught: ["a repeated complete keeps the first retention"],
  },
  {
    fault: "notes the time of the last complete",
    rules: completingAgain((found, _request, now) => ({ ...found, completedAt: now })),
    caught: ["a repeated complete keeps the time of the first"],
  },
  {
    fault: "looks whether the key is open and then, in a second step, completes it",
    rules: () => {
      let before = Promise.resolve();
      return {
        pause: (step) => {
          if (step !== "complete") return undefined;
          before = before.then(soon);
          return before;
        },
      };
    },
    caught: ["of many completes at once one outcome stands from the first answer on"],
  },
];
