/** Answers about holds: the HTTP status of each result of reservations, and holds and resources as JSON. */
import type {
  CommitmentView,
  Done,
  KeptResource,
  Page,
  Placed,
  Reason,
  Rejected,
} from "nevertwice/reservations";
import type { HoldJson, ResourceJson } from "./api-json.ts";
import type { ApiAnswer, ApiRoute, JsonSchema } from "./route.ts";

/** A refusal is stored under its key like any answer, except the last three, which decide nothing. */
const REASON_STATUS: Readonly<Record<Reason, number>> = {
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
  "not-authorized": 403,
  "proof-invalid": 403,
  "actor-unknown-in-registry": 403,
  "registry-unavailable": 503,
  "storage-failure": 503,
  "recording-failure": 503,
};

/** Replaces the detail of a store failure, which may name hosts or tables that a client should not see. */
const PUBLIC_DETAIL: Partial<Record<Reason, string>> = {
  "registry-unavailable": "it is not known whether the caller may do this; send the same request again",
  "storage-failure": "nothing was written; send the same request again",
  "recording-failure":
    "the request was decided, but the store did not confirm the write; send it again with the same key",
};

const RETRY_AFTER_SECONDS = "1";

export function toHoldAnswer(answer: Placed | Done | Rejected): ApiAnswer {
  if (!answer.ok) return toHoldRefusal(answer);
  if (!("id" in answer)) return { status: 200, body: answer };
  return { status: 201, body: answer, headers: { location: `/v1/holds/${answer.id}` } };
}

function toHoldRefusal({ reason, detail, answer }: Rejected): ApiAnswer {
  const status = REASON_STATUS[reason];
  const body = { ok: false, reason, detail: PUBLIC_DETAIL[reason] ?? detail, answer };
  return { status, body, ...(status === 503 && { headers: { "retry-after": RETRY_AFTER_SECONDS } }) };
}

export function toHoldJson(view: CommitmentView): HoldJson {
  const { namespace: _, events: _events, lastHash: _hash, requesterSalt: _salt, ...shown } = view;
  return shown;
}

export function toResourceJson(resource: KeptResource): ResourceJson {
  const { namespace: _, events: _events, lastHash: _hash, ...shown } = resource;
  return { ...shown, free: Math.max(0, resource.capacity - resource.taken) };
}

export function toPageAnswer<Row>(
  { rows, next, unreadable }: Page<Row>,
  shown: (row: Row) => object,
): ApiAnswer {
  return { status: 200, body: { rows: rows.map(shown), next, unreadable } };
}

const TEXT: JsonSchema = { type: "string" };
const WHOLE: JsonSchema = { type: "integer" };
const MILLISECONDS: JsonSchema = {
  type: "integer",
  description: "The store's clock, in milliseconds since the epoch.",
};

export const HOLD: JsonSchema = {
  type: "object",
  required: ["id", "resource", "requester", "units", "state", "isElapsed", "placedAt", "expiresAt"],
  properties: {
    id: TEXT,
    resource: TEXT,
    requester: TEXT,
    units: WHOLE,
    state: { type: "string", enum: ["held", "confirmed", "released", "expired"] },
    isElapsed: { type: "boolean", description: "Whether its time is over although its state is still held." },
    placedAt: MILLISECONDS,
    expiresAt: MILLISECONDS,
    endedAt: MILLISECONDS,
    confirmedUnits: WHOLE,
    occupied: { type: "integer", description: "Units of the resource that it takes now." },
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
    properties: {
      rows: { type: "array", items: row },
      next: TEXT,
      unreadable: {
        type: "array",
        description: "Rows of this page whose stored record is damaged, with the column that is wrong.",
        items: {
          type: "object",
          required: ["table", "row", "column", "reason"],
          properties: { table: TEXT, row: TEXT, column: TEXT, reason: TEXT },
        },
      },
    },
  };
}

export const PLACED: JsonSchema = {
  type: "object",
  required: ["ok", "id"],
  properties: { ok: { const: true }, id: TEXT },
};

export const DONE: JsonSchema = { type: "object", required: ["ok"], properties: { ok: { const: true } } };

/** Reasons that only an `authorize` gives, which this server does not have: its roles decide who may do what. */
const UNSERVED: readonly string[] = [
  "not-authorized",
  "proof-invalid",
  "actor-unknown-in-registry",
  "registry-unavailable",
] satisfies readonly Reason[];
const SERVED = Object.entries(REASON_STATUS).filter(([reason]) => !UNSERVED.includes(reason));

const REFUSED: JsonSchema = {
  type: "object",
  required: ["ok", "reason"],
  properties: {
    ok: { const: false },
    reason: { type: "string", enum: SERVED.map(([reason]) => reason) },
    detail: TEXT,
    answer: { type: "object", description: "If the reason is recording-failure: what was decided." },
  },
};

/** The refusals of every action, by HTTP status. */
export const REFUSALS: ApiRoute["answers"] = Object.fromEntries(
  [...new Set(SERVED.map(([, status]) => status))].map((status) => {
    const reasons = SERVED.filter(([, own]) => own === status);
    return [status, { description: reasons.map(([reason]) => reason).join(", "), schema: REFUSED }];
  }),
);
