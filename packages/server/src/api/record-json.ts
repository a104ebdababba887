/** Records and outcomes as the JSON of the HTTP API: the schemas and the conversions. */
import type { KeptAttempt, Outcome, RecordView, StepView } from "nevertwice";
import type { AttemptJson, KeyJson, OutcomeJson, StepJson } from "./api-json.ts";
import type { JsonSchema } from "./route.ts";

export const STATES = ["pending", "lapsed", "completed", "released"] as const;

const TIME = { type: "integer", description: "The store's clock, in milliseconds since the epoch." };
const TIME_OR_NULL = { ...TIME, type: ["integer", "null"] };

export const OUTCOME_SCHEMA: JsonSchema = {
  type: "object",
  required: ["kind"],
  properties: {
    kind: { enum: ["value", "thrown", "not-kept"] },
    value: { description: "If kind is value: what the work returned." },
    error: { description: "If kind is thrown: the error of the work." },
    reason: {
      enum: ["not-encodable", "too-large", "forgotten", "unreadable"],
      description: "If kind is not-kept: why the work is done but its outcome is not stored.",
    },
  },
};

const ATTEMPT_SCHEMA: JsonSchema = {
  type: "object",
  required: ["number", "fence", "claimedAt", "renewals", "renewedAt", "endedAt", "ended"],
  properties: {
    number: { type: "integer" },
    fence: { type: "integer" },
    claimedAt: TIME,
    renewals: { type: "integer", description: "How often its claim was renewed." },
    renewedAt: { ...TIME_OR_NULL, description: "When it was renewed last; null if it never was." },
    endedAt: { ...TIME_OR_NULL, description: "Null while it runs, and where it is not known." },
    ended: {
      enum: ["completed", "released", "unknown", "unrun", "lapsed", null],
      description: "How it ended; null while it runs. An earlier attempt that completed was reopened since.",
    },
  },
  additionalProperties: false,
};

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
    "lapsedAt",
    "keptUntil",
  ],
  properties: {
    id: { type: "string" },
    keyHash: { type: "string", description: "The name of the key in logs and events." },
    operation: { type: ["string", "null"] },
    scope: { type: ["string", "null"] },
    key: {
      type: ["string", "null"],
      description: "The whole key for operators; its first characters for other roles.",
    },
    fingerprint: {
      type: "string",
      description:
        "The digest of what the request meant, with its version. Only for operators who read a single key.",
    },
    state: { enum: STATES },
    fence: { type: "integer" },
    number: { type: "integer", description: "Number of the latest attempt, counted from 1." },
    held: {
      type: "boolean",
      description: "Whether a lapsed key waits for a decision instead of being taken over.",
    },
    claimedAt: TIME,
    leaseLeftMs: { type: "integer" },
    completedAt: TIME_OR_NULL,
    lapsedAt: {
      ...TIME_OR_NULL,
      description: "When a lapsed key lapsed: when its lease ended, or when it was abandoned as unknown.",
    },
    keptUntil: TIME_OR_NULL,
    outcome: OUTCOME_SCHEMA,
    steps: {
      type: "array",
      description: "The finished steps of work that is not completed, in order; absent if there are none.",
      items: {
        type: "object",
        required: ["name", "keptAt"],
        properties: { name: { type: "string" }, keptAt: TIME, outcome: OUTCOME_SCHEMA },
        additionalProperties: false,
      },
    },
    history: {
      type: "object",
      description: "The attempts of the key. Lists leave it out, and so do stores that keep none.",
      required: ["attempts", "dropped"],
      properties: {
        attempts: {
          type: "array",
          description: "In their order; the last one is the latest.",
          items: ATTEMPT_SCHEMA,
        },
        dropped: { type: "integer", description: "How many earlier attempts are not listed." },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

/**
 * `isWhole` adds the outcomes, the fingerprint and the whole key, which only operators and the owner of the key may read.
 * Without `hasOutcomes` the outcomes and the fingerprint are left out for them too.
 */
export function recordJson(record: RecordView, isWhole: boolean, hasOutcomes: boolean = isWhole): KeyJson {
  const { id, keyHash, operation, scope, key, state, fence, number, held } = record;
  const { claimedAt, leaseLeftMs, completedAt, lapsedAt, keptUntil, outcome, steps, history, fingerprint } =
    record;
  return {
    id,
    keyHash,
    operation: operation ?? null,
    scope: scope ?? null,
    key: key === undefined ? null : isWhole ? key : abbreviateKey(key),
    state,
    fence,
    number,
    held,
    claimedAt: Math.round(claimedAt),
    leaseLeftMs: Math.round(leaseLeftMs),
    completedAt: roundTime(completedAt),
    lapsedAt: roundTime(lapsedAt),
    keptUntil: roundTime(keptUntil),
    ...(hasOutcomes && fingerprint !== undefined && { fingerprint }),
    ...(hasOutcomes && outcome !== undefined && { outcome: outcomeJson(outcome) }),
    ...(steps && { steps: steps.map((step) => stepJson(step, hasOutcomes)) }),
    ...(history && { history: { ...history, attempts: history.attempts.map(attemptJson) } }),
  };
}

function attemptJson(attempt: KeptAttempt): AttemptJson {
  const { number, fence, claimedAt, renewals, renewedAt, endedAt, ended = null } = attempt;
  const [renewed, end] = [renewedAt, endedAt].map(roundTime) as [number | null, number | null];
  return {
    number,
    fence,
    claimedAt: Math.round(claimedAt),
    renewals,
    renewedAt: renewed,
    endedAt: end,
    ended,
  };
}

function stepJson({ name, keptAt, outcome }: StepView, hasOutcome: boolean): StepJson {
  return { name, keptAt: Math.round(keptAt), ...(hasOutcome && { outcome: outcomeJson(outcome) }) };
}

/** At most the first four characters, and never more than half of the key. */
export function abbreviateKey(key: string): string {
  const characters = [...key];
  return `${characters.slice(0, Math.min(4, Math.floor(characters.length / 2))).join("")}…`;
}

/** JSON has no infinity: a time that never comes is null. */
function roundTime(time: number | undefined): number | null {
  return time !== undefined && Number.isFinite(time) ? Math.round(time) : null;
}

/** Guards store more types than JSON has; `toJson` says how each is shown. */
export function outcomeJson(outcome: Outcome): OutcomeJson {
  switch (outcome.kind) {
    case "value":
      return { kind: "value", value: toJson(outcome.value) };
    case "thrown":
      return { kind: "thrown", error: toJson(outcome.error) };
    case "not-kept":
      return { kind: "not-kept", reason: outcome.reason };
  }
}

/** Bytes as base64, a date in ISO 8601, a bigint as text, a map as pairs, a set as a list, an error without its stack. */
function toJson(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (value === undefined) return null;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(toJson);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Map) return [...value].map(toJson);
  if (value instanceof Set) return [...value].map(toJson);
  if (value instanceof Error) {
    const { name, message, code } = value as Error & { readonly code?: unknown };
    return { name, message, ...(code !== undefined && { code }) };
  }
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toJson(member)]));
}
