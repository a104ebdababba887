/** A record as the HTTP API tells it. */
import type { RecordView } from "nevertwice";
import { OUTCOME_SCHEMA, outcomeJson } from "./json.ts";
import type { JsonSchema } from "./route.ts";

const TIME = { type: "integer", description: "The store's clock, in milliseconds since the epoch." };
const TIME_OR_NULL = { ...TIME, type: ["integer", "null"] };

export const STATES = ["pending", "lapsed", "completed", "released"] as const;

export const RECORD_SCHEMA: JsonSchema = {
  type: "object",
  required: [
    "id",
    "keyHash",
    "operation",
    "scope",
    "key",
    "state",
    "fence",
    "number",
    "held",
    "claimedAt",
    "leaseLeftMs",
    "completedAt",
    "keptUntil",
  ],
  properties: {
    id: { type: "string" },
    keyHash: { type: "string", description: "How logs and events name the key." },
    operation: { type: ["string", "null"] },
    scope: { type: ["string", "null"] },
    key: {
      type: ["string", "null"],
      description: "Only its beginning unless the access token is an operator's.",
    },
    state: { enum: STATES },
    fence: { type: "integer" },
    number: { type: "integer", description: "Counts the attempts." },
    held: { type: "boolean", description: "Once lapsed, it waits for a decision." },
    claimedAt: TIME,
    leaseLeftMs: { type: "integer" },
    completedAt: TIME_OR_NULL,
    keptUntil: TIME_OR_NULL,
    outcome: OUTCOME_SCHEMA,
  },
  additionalProperties: false,
};

/** `isWhole`: with its key in full and its outcome. */
export function recordJson(record: RecordView, isWhole: boolean): Readonly<Record<string, unknown>> {
  const { id, keyHash, operation, scope, key, state, fence, number, held } = record;
  const { claimedAt, leaseLeftMs, completedAt, keptUntil, outcome } = record;
  return {
    id,
    keyHash,
    operation: operation ?? null,
    scope: scope ?? null,
    key: key === undefined ? null : isWhole ? key : beginningOf(key),
    state,
    fence,
    number,
    held,
    claimedAt: wholeOf(claimedAt),
    leaseLeftMs: wholeOf(leaseLeftMs),
    completedAt: wholeOf(completedAt),
    keptUntil: wholeOf(keptUntil),
    ...(isWhole && outcome !== undefined && { outcome: outcomeJson(outcome) }),
  };
}

/** Four characters, and never more than half of it. */
export function beginningOf(key: string): string {
  const characters = [...key];
  return `${characters.slice(0, Math.min(4, Math.floor(characters.length / 2))).join("")}…`;
}

/** A time that never comes has no number in JSON. */
function wholeOf(time: number | undefined): number | null {
  return time !== undefined && Number.isFinite(time) ? Math.round(time) : null;
}
