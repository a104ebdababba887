/** Stores that let two attempts own one key, or an owner lose what it owns. */
import { claimRecord, forgetRecord } from "../../../src/core/record.ts";
import { deciding, type Fault, isNew, living, reading, soon } from "../wrong-rules.ts";

export const oneOwner: readonly Fault[] = [
  {
    fault: "tells the first attempt that it took over",
    rules: deciding((decision, found) =>
      found === undefined && isNew(decision.answer)
        ? { ...decision, answer: { ...decision.answer, tookOver: true } }
        : decision,
    ),
    caught: ["a key without a record goes to the first token that claims it"],
  },
  {
    fault: "looks whether the key is free and then, in a second step, takes it",
    rules: () => ({
      pause: (step, found, now) =>
        step === "claim" && (!living(found, now) || found.state === "released") ? soon() : undefined,
    }),
    caught: [
      "of two hundred claims at once one is new and the others are pending",
      "of fifty claims of a released key at once one is new",
      "of fifty claims of an expired key at once one is new",
    ],
  },
  {
    fault: "answers new when it has lost the race for the tenth time",
    rules: () => {
      let lost = 0;
      return {
        claim: (found, request, now, nextFence) => {
          const decision = claimRecord(found, request, now, nextFence);
          if (decision.answer.status !== "pending" || found?.number !== 1 || ++lost < 10) return decision;
          return claimRecord({ ...found, leaseEndsAt: now }, request, now, nextFence);
        },
      };
    },
    caught: [
      "of two hundred claims at once one is new and the others are pending",
      "of fifty claims of an expired key at once one is new",
      "a key whose lease runs is refused however often it is asked for",
    ],
  },
  {
    fault: "writes the hold of a claim that it refuses",
    rules: deciding((decision, found, request) =>
      decision.answer.status === "pending" && found !== undefined && request.hold
        ? { ...decision, write: { ...found, hold: true } }
        : decision,
    ),
    caught: ["a claim that is refused changes nothing of the owner's record"],
  },
  {
    fault: "does not show whose a pending key is",
    rules: reading((shown) => (shown.state === "pending" ? { ...shown, token: "" } : shown)),
    caught: ["a read shows who owns the key"],
  },
  {
    fault: "forgets a key that is being worked on",
    rules: () => ({
      forget: (found, request, now) =>
        found?.state === "pending" && found.fence === request.fence && !request.reopen
          ? { answer: true }
          : forgetRecord(found, request, now),
    }),
    caught: ["forget does not take a key from its owner"],
  },
  {
    fault: "reopens a key that is being worked on",
    rules: () => ({
      forget: (found, request, now) =>
        forgetRecord(
          found?.state === "pending" && request.reopen ? { ...found, state: "completed" } : found,
          request,
          now,
        ),
    }),
    caught: ["reopen does not take a key from its owner"],
  },
];
