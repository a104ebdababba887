/** What is answered about holds: the status of each answer of reservations, and holds and resources as people see them. */
import type {
  CommitmentView,
  Done,
  KeptResource,
  Page,
  Placed,
  Reason,
  Rejected,
} from "nevertwice/reservations";
import type { ApiAnswer, JsonSchema, Route } from "./route.ts";

/** A refusal is kept under its key like any answer, but for the last two: nobody knows, or nothing was written. */
const STATUS_OF: Readonly<Record<Reason, number>> = {
  "not-known": 404,
  "resource-unavailable": 409,
  "not-held": 409,
  "window-elapsed": 409,
  "window-not-elapsed": 409,
  "units-exceeded": 409,
  "pool-suspended": 409,
  "pool-closed": 409,
  "invalid-request": 422,
  "token-collision": 422,
  "storage-failure": 503,
  "recording-failure": 503,
};

/** The causes of a store may name what a client should not read. */
const SAID_INSTEAD: Partial<Record<Reason, string>> = {
  "storage-failure": "nothing was written; send the same request again",
  "recording-failure":
    "it was decided, and nobody knows whether that was written; send it again with the same key",
};

const RETRY_AFTER_SECONDS = "1";

export function answerOf(answer: Placed | Done | Rejected): ApiAnswer {
  if (!answer.ok) return refusalOf(answer);
  if (!("id" in answer)) return { status: 200, body: answer };
  return { status: 201, body: answer, headers: { location: `/v1/holds/${answer.id}` } };
}

function refusalOf({ reason, detail, answer }: Rejected): ApiAnswer {
  const status = STATUS_OF[reason];
  const body = { ok: false, reason, detail: SAID_INSTEAD[reason] ?? detail, answer };
  return { status, body, ...(status === 503 && { headers: { "retry-after": RETRY_AFTER_SECONDS } }) };
}

export function holdOf(view: CommitmentView): object {
  const { namespace: _, events: _events, lastHash: _hash, ...shown } = view;
  return shown;
}

export function resourceOf(resource: KeptResource): object {
  const { namespace: _, events: _events, lastHash: _hash, ...shown } = resource;
  return { ...shown, free: Math.max(0, resource.capacity - resource.taken) };
}

export function pageOf<Row>({ rows, next }: Page<Row>, shown: (row: Row) => object): ApiAnswer {
  return { status: 200, body: { rows: rows.map(shown), next } };
}

const TEXT: JsonSchema = { type: "string" };
const WHOLE: JsonSchema = { type: "integer" };
const MILLISECONDS: JsonSchema = { type: "integer", description: "Milliseconds since 1970, by the store." };

export const HOLD: JsonSchema = {
  type: "object",
  required: ["id", "resource", "requester", "units", "state", "isElapsed", "placedAt", "expiresAt"],
  properties: {
    id: TEXT,
    resource: TEXT,
    requester: TEXT,
    units: WHOLE,
    state: { type: "string", enum: ["held", "confirmed", "released", "expired"] },
    isElapsed: { type: "boolean", description: "Held, and its time is over." },
    placedAt: MILLISECONDS,
    expiresAt: MILLISECONDS,
    endedAt: MILLISECONDS,
    confirmedUnits: WHOLE,
    occupied: { type: "integer", description: "Units that it takes up now." },
  },
};

export const RESOURCE: JsonSchema = {
  type: "object",
  required: ["name", "capacity", "taken", "free", "state", "isDeclared"],
  properties: {
    name: TEXT,
    capacity: WHOLE,
    taken: WHOLE,
    free: WHOLE,
    state: { type: "string", enum: ["open", "suspended", "closed"] },
    isDeclared: { type: "boolean" },
  },
};

export function pageSchema(row: JsonSchema): JsonSchema {
  return {
    type: "object",
    required: ["rows"],
    properties: { rows: { type: "array", items: row }, next: TEXT },
  };
}

export const PLACED: JsonSchema = {
  type: "object",
  required: ["ok", "id"],
  properties: { ok: { const: true }, id: TEXT },
};

export const DONE: JsonSchema = { type: "object", required: ["ok"], properties: { ok: { const: true } } };

const REFUSED: JsonSchema = {
  type: "object",
  required: ["ok", "reason"],
  properties: {
    ok: { const: false },
    reason: { type: "string", enum: Object.keys(STATUS_OF) },
    detail: TEXT,
    answer: { type: "object", description: "On recording-failure: what was decided." },
  },
};

/** The refusals of every action, by their status. */
export const REFUSALS: Route["answers"] = Object.fromEntries(
  [...new Set(Object.values(STATUS_OF))].map((status) => {
    const reasons = Object.entries(STATUS_OF).filter(([, own]) => own === status);
    return [status, { description: reasons.map(([reason]) => reason).join(", "), schema: REFUSED }];
  }),
);
