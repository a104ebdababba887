/** The answers to a claim. */
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { ClaimAnswered } from "nevertwice/claims";
import { outcomeJson } from "./record-json.ts";
import type { ApiAnswer, JsonSchema } from "./route.ts";

export const CLAIMED_SCHEMA: JsonSchema = {
  type: "object",
  required: ["id", "token", "fence", "number", "tookOver", "leaseMs"],
  properties: {
    id: { type: "string" },
    token: { type: "string", description: "Send it to renew, complete or abandon the claim." },
    fence: { type: "integer", description: "Grows with every claim of this key." },
    number: { type: "integer", description: "1 for the first attempt." },
    tookOver: {
      type: "boolean",
      description:
        "Whether this claim took over one whose lease ended. The earlier attempt may have done the work.",
    },
    leaseMs: { type: "integer" },
    derivedKeys: { type: "object", additionalProperties: { type: "string" } },
  },
  additionalProperties: false,
};

/** The claim may or may not exist: the answer says how to find out, and how to give it back. */
export function unansweredClaim(error: unknown): ApiAnswer {
  if (!isNevertwiceError(error, "unavailable") || !("id" in error)) throw error;
  const detail =
    "The store did not confirm whether the claim was made. Send the same request with the same token again, or abandon the claim with this id as unrun.";
  return { problem: error, more: { id: error.id, detail } };
}

export function newClaimAnswer(
  answer: Extract<ClaimAnswered, { readonly status: "new" }>,
  token: string,
  names: readonly string[] | undefined,
): ApiAnswer {
  const { id, fence, number, tookOver, leaseMs, deriveKey } = answer;
  const derivedKeys = names && Object.fromEntries(names.map((name) => [name, deriveKey(name)]));
  const body = { id, token, fence, number, tookOver, leaseMs, ...(derivedKeys && { derivedKeys }) };
  return { status: 201, body };
}

export function noClaimAnswer(answer: Exclude<ClaimAnswered, { readonly status: "new" }>): ApiAnswer {
  const { id } = answer;
  switch (answer.status) {
    case "completed":
      return { status: 200, body: { id, outcome: outcomeJson(answer.outcome) } };
    case "pending":
      return {
        problem: new NevertwiceError("pending", "another attempt holds the claim; try again later.", {
          elapsedMs: answer.elapsedMs,
        }),
        more: { id, leaseLeftMs: Math.ceil(answer.leaseLeftMs) },
      };
    case "unknown":
      return {
        problem: new NevertwiceError(
          "unknown",
          "the lease of an earlier attempt ended, and whether it did the work is unknown; an operator has to decide.",
        ),
        more: { id, fence: answer.fence },
      };
    case "token-spent":
      return {
        problem: new NevertwiceError(
          "token-spent",
          "this token abandoned its claim and cannot claim this key again; claim with a new token.",
        ),
        more: { id },
      };
    case "conflict":
      return {
        problem: new NevertwiceError(
          "conflict",
          "the key was used for another request: the fingerprints differ.",
        ),
        more: { id },
      };
  }
}
