/** Stores that compare fingerprints wrongly, or not, or too late. */
import { fingerprintsDiffer } from "../../../src/core/fingerprint.ts";
import { hasSteps } from "../../../src/core/kept-steps.ts";
import { stateOf } from "../../../src/core/record.ts";
import type { ClaimAnswer } from "../../../src/core/store.ts";
import { answering, deciding, type Fault, forgetting, judging, living, writing } from "../wrong-rules.ts";

export const conflictWins: readonly Fault[] = [
  {
    fault: "compares no fingerprints",
    rules: judging((found, request) =>
      hasSteps(found) ? found : { ...found, fingerprint: request.fingerprint },
    ),
    caught: [
      "another fingerprint is a conflict while the key is pending",
      "another fingerprint is a conflict once the key is lapsed",
      "another fingerprint is a conflict where the outcome was given up as unknown",
      "another fingerprint is a conflict once the key is completed",
      "a released key takes the meaning of its next claim",
      "conflict beats unknown",
      "conflict beats takeover",
      "conflict beats the repeat of the token's own claim",
      "conflict beats the outcome even for the token that completed it",
      "a takeover without a fingerprint goes on with the one before",
    ],
  },
  {
    fault: "calls it a conflict on a released key too",
    rules: deciding((decision, found, request, now) =>
      living(found, now) &&
      found.state === "released" &&
      fingerprintsDiffer(found.fingerprint, request.fingerprint)
        ? answering({ status: "conflict", state: "released" })
        : decision,
    ),
    caught: [
      "another fingerprint is no conflict once the key is released",
      "a released key takes the meaning of its next claim",
    ],
  },
  {
    fault: "keeps the fingerprint of the attempt that released the key",
    rules: writing((write, { found }) =>
      found?.state === "released" ? { ...write, fingerprint: found.fingerprint } : write,
    ),
    caught: ["a released key takes the meaning of its next claim"],
  },
  {
    fault: "compares with what is past its retention",
    rules: deciding((decision, found, request) =>
      found !== undefined &&
      found.state !== "released" &&
      fingerprintsDiffer(found.fingerprint, request.fingerprint)
        ? answering({
            status: "conflict",
            state: decision.answer.status === "conflict" ? decision.answer.state : found.state,
          })
        : decision,
    ),
    caught: ["another fingerprint is no conflict past retention"],
  },
  {
    fault: "salts each fingerprint, so that no two are the same",
    rules: deciding((decision, found, request, now) =>
      living(found, now) &&
      !hasSteps(found) &&
      found.fingerprint !== undefined &&
      found.fingerprint === request.fingerprint
        ? answering({ status: "conflict", state: stateOf(found, now) })
        : decision,
    ),
    caught: [
      "the same fingerprint waits for a pending key",
      "the same fingerprint gets the outcome of a completed key",
      "a conflict changes nothing",
    ],
  },
  {
    fault: "takes a missing fingerprint for another one",
    rules: deciding((decision, found, request, now) =>
      living(found, now) &&
      found.state !== "released" &&
      (found.fingerprint === undefined) !== (request.fingerprint === undefined)
        ? answering({ status: "conflict", state: stateOf(found, now) })
        : decision,
    ),
    caught: [
      "a record without a fingerprint is compared with none",
      "a claim without a fingerprint is compared with none",
      "a takeover without a fingerprint goes on with the one before",
      "a forgotten record has no fingerprint to compare",
    ],
  },
  {
    fault: "compares fingerprints of different versions as text",
    rules: deciding((decision, found, request, now) =>
      living(found, now) &&
      found.state !== "released" &&
      found.fingerprint !== undefined &&
      request.fingerprint !== undefined &&
      found.fingerprint !== request.fingerprint
        ? answering({ status: "conflict", state: stateOf(found, now) })
        : decision,
    ),
    caught: ["fingerprints of different versions are not compared"],
  },
  {
    fault: "asks about hold and takeover before it compares",
    rules: judging((found, request, now) =>
      stateOf(found, now) === "lapsed" && found.hold ? { ...found, fingerprint: request.fingerprint } : found,
    ),
    caught: ["conflict beats unknown", "conflict beats takeover"],
  },
  {
    fault: "does not compare what comes from the token that it knows",
    rules: judging((found, request) =>
      found.token === request.token ? { ...found, fingerprint: request.fingerprint } : found,
    ),
    caught: [
      "conflict beats the repeat of the token's own claim",
      "conflict beats the outcome even for the token that completed it",
    ],
  },
  {
    fault: "writes the fingerprint that it then calls a conflict",
    rules: deciding((decision, found, request) =>
      decision.answer.status === "conflict" && found !== undefined && !hasSteps(found)
        ? { ...decision, write: { ...found, fingerprint: request.fingerprint } }
        : decision,
    ),
    caught: ["a conflict changes nothing"],
  },
  {
    fault: "says pending of what has lapsed when it answers conflict",
    rules: deciding((decision) =>
      decision.answer.status === "conflict" && decision.answer.state === "lapsed"
        ? answering({ status: "conflict", state: "pending" })
        : decision,
    ),
    caught: [
      "another fingerprint is a conflict once the key is lapsed",
      "another fingerprint is a conflict where the outcome was given up as unknown",
      "conflict beats unknown",
      "conflict beats takeover",
    ],
  },
  {
    fault: "gives the outcome away with the conflict",
    rules: deciding((decision, found) =>
      decision.answer.status === "conflict" && found?.outcome !== undefined
        ? answering({ ...decision.answer, outcome: found.outcome } as ClaimAnswer)
        : decision,
    ),
    caught: ["another fingerprint is a conflict once the key is completed"],
  },
  {
    fault: "wipes out the fingerprint when a claim without one takes over",
    rules: writing((write, { found, request }) =>
      found?.state === "pending" && found.token !== request.token
        ? { ...write, fingerprint: request.fingerprint }
        : write,
    ),
    caught: ["a takeover without a fingerprint goes on with the one before"],
  },
  {
    fault: "keeps the fingerprint of what is forgotten",
    rules: forgetting((marker, found) => ({ ...marker, fingerprint: found.fingerprint })),
    caught: ["a forgotten record has no fingerprint to compare"],
  },
];
