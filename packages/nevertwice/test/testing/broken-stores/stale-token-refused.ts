/** Stores that do what a token asks which has no right to it. */
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  forgetRecord,
  renewRecord,
} from "../../../src/core/record.ts";
import { type Fault, judging, living } from "../wrong-rules.ts";

export const staleTokenRefused: readonly Fault[] = [
  {
    fault: "completes for any token",
    rules: () => ({
      complete: (found, request, now) =>
        completeRecord(found && { ...found, token: request.token }, request, now),
    }),
    caught: [
      "complete is refused on a key that another token has",
      "complete is refused on a key that was taken over",
      "complete is refused on another token's lapsed key",
      "a token is recognised on its own key alone",
      "complete is refused on a key that another token completed",
    ],
  },
  {
    fault: "completes what is not there",
    rules: () => ({
      complete: (found, request, now) => {
        if (found !== undefined) return completeRecord(found, request, now);
        const claim = {
          parts: { namespace: "", scope: "", operation: "", key: "" },
          leaseMs: 1,
          hold: false,
        };
        const { write } = claimRecord(undefined, { ...request, ...claim }, now, () => 1);
        return completeRecord(write, request, now);
      },
    }),
    caught: [
      "complete is refused on a key that nobody claimed",
      "the token of a forgotten attempt completes nothing",
    ],
  },
  {
    fault: "completes what was released",
    rules: () => ({
      complete: (found, request, now) =>
        living(found, now) && found.state === "released"
          ? completeRecord({ ...found, state: "pending", token: request.token }, request, now)
          : completeRecord(found, request, now),
    }),
    caught: [
      "complete is refused on a key that another token released",
      "complete is refused after its own token released the key",
    ],
  },
  {
    fault: "renews for any token",
    rules: () => ({
      renew: (found, token, leaseMs, now) => renewRecord(found && { ...found, token }, token, leaseMs, now),
    }),
    caught: [
      "renew is refused on a key that another token has",
      "renew is refused on a key that was taken over",
      "renew is refused on another token's lapsed key",
      "a token is recognised on its own key alone",
    ],
  },
  {
    fault: "says that it renewed what is not there",
    rules: () => ({
      renew: (found, token, leaseMs, now) =>
        found === undefined ? { answer: true } : renewRecord(found, token, leaseMs, now),
    }),
    caught: ["renew is refused on a key that nobody claimed"],
  },
  {
    fault: "renews what was released",
    rules: () => ({
      renew: (found, token, leaseMs, now) =>
        living(found, now) && found.state === "released"
          ? { answer: true, write: { ...found, state: "pending", spent: false, token } }
          : renewRecord(found, token, leaseMs, now),
    }),
    caught: [
      "renew is refused on a key that another token released",
      "renew is refused after its own token released the key",
    ],
  },
  {
    fault: "renews for a token that gave up",
    rules: () => ({
      renew: (found, token, leaseMs, now) =>
        renewRecord(found && { ...found, spent: false }, token, leaseMs, now),
    }),
    caught: [
      "a token that abandoned as unknown can no longer renew",
      "a token that took over and abandoned as unrun can no longer renew",
    ],
  },
  {
    fault: "abandons for any token",
    rules: () => ({
      abandon: (found, token, as, now) => abandonRecord(found && { ...found, token }, token, as, now),
    }),
    caught: [
      "abandon is refused on a key that another token has",
      "abandon is refused on a key that was taken over",
      "abandon is refused on another token's lapsed key",
      "abandon is refused on a key that another token released",
      "a token is recognised on its own key alone",
    ],
  },
  {
    fault: "says that it abandoned what is not there",
    rules: () => ({
      abandon: (found, token, as, now) =>
        found === undefined ? { answer: true } : abandonRecord(found, token, as, now),
    }),
    caught: ["abandon is refused on a key that nobody claimed"],
  },
  {
    fault: "lets a token claim again that gave up",
    rules: judging((found, request) =>
      found.token === request.token && found.spent ? { ...found, spent: false, state: "pending" } : found,
    ),
    caught: [
      "a token that abandoned as released can no longer claim",
      "a token that abandoned as unknown can no longer claim",
      "a token that abandoned as unrun can no longer claim",
      "a token whose outcome was reopened can no longer claim",
    ],
  },
  {
    fault: "forgets whatever the fence",
    rules: () => ({
      forget: (found, request, now) =>
        forgetRecord(found, request.reopen ? request : { fence: found?.fence ?? 0 }, now),
    }),
    caught: ["forget by a fence that is no longer current is refused"],
  },
  {
    fault: "lets a token have its key again once it is reopened",
    rules: () => ({
      forget: (found, request, now) => {
        const step = forgetRecord(found, request, now);
        if (step.write?.state !== "released") return step;
        return { ...step, write: { ...step.write, spent: false } };
      },
    }),
    caught: ["a token whose outcome was reopened can no longer claim"],
  },
];
