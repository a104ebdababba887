/**
 * Holds and resources over HTTP: the actions of reservations, each under the `Idempotency-Key` of its request. A refusal
 * is an answer like any other: it has the reason that reservations gave, and it is stored under the key.
 */
import { NevertwiceError } from "nevertwice";
import type {
  CapacityRequest,
  CommitmentState,
  Done,
  HoldRequest,
  Keyed,
  Paging,
  Rejected,
  Reservations,
  UnitsRequest,
} from "nevertwice/reservations";
import { ROLES, type Role } from "../access.ts";
import type { Context } from "../context.ts";
import {
  DONE,
  HOLD,
  PLACED,
  pageSchema,
  REFUSALS,
  RESOURCE,
  toHoldAnswer,
  toHoldJson,
  toPageAnswer,
  toResourceJson,
} from "./hold-answers.ts";
import { KEY_HEADER, readKey } from "./key-header.ts";
import { searchResources } from "./resource-search.ts";
import type { ApiRequest, ApiRoute, JsonSchema, Parameter } from "./route.ts";
import { callerScope } from "./subjects.ts";

const SERVICE: readonly Role[] = ["service"];
const SERVICE_OR_OPERATOR: readonly Role[] = ["service", "operator"];
const OPERATOR: readonly Role[] = ["operator"];
const OPERATOR_OR_AUDITOR: readonly Role[] = ["operator", "auditor"];

const NAME: JsonSchema = { type: "string", minLength: 1, maxLength: 1_024 };
const UNITS: JsonSchema = { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const CAPACITY: JsonSchema = { ...UNITS, minimum: 0 };

export const HOLD_ID: Parameter = {
  schema: { type: "string", pattern: "^[0-9a-f-]{36}$" },
  description: "The id from the response to placeHold.",
};
const RESOURCE_NAME: Parameter = { schema: NAME, description: "The name of the resource." };
export const NAMES: Readonly<Record<"resource" | "requester", Parameter>> = {
  resource: { schema: NAME, description: "Only holds of this resource." },
  requester: { schema: NAME, description: "Only holds of this requester." },
};
const PAGING: Readonly<Record<string, Parameter>> = {
  limit: {
    schema: { type: "integer", minimum: 1, maximum: 1_000, default: 100 },
    description: "The most rows on a page.",
  },
  after: { schema: NAME, description: "The `next` of the previous page." },
};
const RESOURCE_SEARCH: Parameter = {
  schema: { type: "string", minLength: 1, maxLength: 200 },
  description:
    "Only resources with this text in their name. A page can be short or empty and still have a `next`: more resources are left to search.",
};
const STATE: Parameter = {
  schema: { type: "string", enum: ["held", "confirmed", "released", "expired"] },
  description:
    "Only holds in this state. `held`: still open, also if its time is over and nobody has asked since. `confirmed`, `released` and `expired` are ends.",
};

const KEYED = { tag: "holds", headers: KEY_HEADER } as const;
const PROBLEMS = ["not-supported"] as const;
const KEYED_PROBLEMS = ["key-missing", "key-invalid", "body-too-large", "not-supported"] as const;
const DONE_ANSWERS = { 200: { description: "The action is done.", schema: DONE }, ...REFUSALS };

/** Throws `not-supported` if the server has no store that can keep holds. */
export function requireReservations(context: Context, { caller }: Pick<ApiRequest, "caller">): Reservations {
  const reservations = context.holds(caller.namespace);
  if (reservations !== undefined) return reservations;
  throw new NevertwiceError(
    "not-supported",
    "the store of this server cannot keep holds; start the server with --holds-store and the URL of a store that can.",
  );
}

export function holdsRoutes(context: Context): readonly ApiRoute[] {
  return [
    placeRoute(context),
    ...ENDS.map((end) => endRoute(context, end)),
    ...readRoutes(context),
    declareRoute(context),
    ...CHANGES.map((change) => changeRoute(context, change)),
    ...resourceReadRoutes(context),
  ];
}

function placeRoute(context: Context): ApiRoute {
  return {
    ...KEYED,
    method: "POST",
    path: "/v1/holds",
    id: "placeHold",
    summary: "Hold units of a resource for a limited time",
    roles: SERVICE,
    body: objectSchema({ resource: NAME, requester: NAME, durationMs: UNITS, units: UNITS }, ["units"]),
    answers: { 201: { description: "The hold is placed.", schema: PLACED }, ...REFUSALS },
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const reservations = requireReservations(context, request);
      const asked = request.body as Omit<HoldRequest, keyof Keyed>;
      return toHoldAnswer(await reservations.placeHold({ ...asked, ...keyAndScope(request) }));
    },
  };
}

const ENDS = [
  { action: "confirm", path: "confirm", id: "confirmHold", what: "Confirm all or some units of a hold" },
  { action: "release", path: "release", id: "releaseHold", what: "Release a hold" },
  { action: "expire", path: "expire", id: "expireHold", what: "Record that the time of a hold is over" },
  { action: "giveBack", path: "give-back", id: "giveBack", what: "Give back confirmed units" },
] as const;

function endRoute(context: Context, { action, path, id, what }: (typeof ENDS)[number]): ApiRoute {
  const hasUnits = action === "confirm" || action === "giveBack";
  return {
    ...KEYED,
    method: "POST",
    path: `/v1/holds/{id}/${path}`,
    id,
    summary: what,
    roles: SERVICE,
    params: { id: HOLD_ID },
    body: objectSchema(hasUnits ? { units: UNITS } : {}, ["units"]),
    bodyIsOptional: true,
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const act: (asked: UnitsRequest) => Promise<Done | Rejected> = requireReservations(context, request)[
        action
      ];
      const asked = (request.body ?? {}) as Pick<UnitsRequest, "units">;
      return toHoldAnswer(await act({ ...asked, id: request.params.id as string, ...keyAndScope(request) }));
    },
  };
}

function readRoutes(context: Context): readonly ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/v1/holds",
      id: "listHolds",
      tag: "holds",
      summary: "List holds, optionally in one state",
      roles: OPERATOR_OR_AUDITOR,
      query: { state: STATE, ...NAMES, ...PAGING },
      answers: { 200: { description: "A page of holds.", schema: pageSchema(HOLD) } },
      problems: PROBLEMS,
      async handle(request) {
        const reservations = requireReservations(context, request);
        const query = request.query as Paging & { readonly state?: CommitmentState };
        return toPageAnswer(await reservations.list(query), toHoldJson);
      },
    },
    {
      method: "GET",
      path: "/v1/holds/{id}",
      id: "readHold",
      tag: "holds",
      summary: "Read one hold",
      roles: ROLES,
      params: { id: HOLD_ID },
      answers: { 200: { description: "The hold.", schema: HOLD } },
      problems: ["not-found", ...PROBLEMS],
      async handle(request) {
        const found = await requireReservations(context, request).get(request.params.id as string);
        if (found !== undefined) return { status: 200, body: toHoldJson(found) };
        throw new NevertwiceError("not-found", "there is no hold with this id.");
      },
    },
  ];
}

function declareRoute(context: Context): ApiRoute {
  return {
    ...KEYED,
    method: "POST",
    path: "/v1/resources",
    id: "declareResource",
    summary: "Declare the capacity of a resource",
    description: "A resource that was never declared has one unit.",
    roles: SERVICE_OR_OPERATOR,
    body: objectSchema({ resource: NAME, capacity: CAPACITY }),
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const { resources } = requireReservations(context, request);
      const asked = request.body as Omit<CapacityRequest, keyof Keyed>;
      return toHoldAnswer(await resources.declare({ ...asked, ...keyAndScope(request) }));
    },
  };
}

const CHANGES = [
  { action: "adjust", id: "adjustResource", what: "Change the capacity of a resource" },
  { action: "suspend", id: "suspendResource", what: "Refuse new holds until the resource is resumed" },
  { action: "resume", id: "resumeResource", what: "Allow new holds again" },
  { action: "close", id: "closeResource", what: "Refuse new holds permanently" },
] as const;

function changeRoute(context: Context, { action, id, what }: (typeof CHANGES)[number]): ApiRoute {
  const hasCapacity = action === "adjust";
  return {
    ...KEYED,
    method: "POST",
    path: `/v1/resources/{name}/${action}`,
    id,
    summary: what,
    roles: OPERATOR,
    params: { name: RESOURCE_NAME },
    body: objectSchema(hasCapacity ? { capacity: CAPACITY } : {}),
    ...(!hasCapacity && { bodyIsOptional: true }),
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const { resources } = requireReservations(context, request);
      const act = resources[action] as (asked: Omit<CapacityRequest, "capacity">) => Promise<Done | Rejected>;
      const asked = (request.body ?? {}) as Partial<CapacityRequest>;
      return toHoldAnswer(
        await act({ ...asked, resource: request.params.name as string, ...keyAndScope(request) }),
      );
    },
  };
}

function resourceReadRoutes(context: Context): readonly ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/v1/resources",
      id: "listResources",
      tag: "holds",
      summary: "List resources that were declared, held or refused",
      roles: OPERATOR_OR_AUDITOR,
      query: { search: RESOURCE_SEARCH, ...PAGING },
      answers: { 200: { description: "A page of resources.", schema: pageSchema(RESOURCE) } },
      problems: PROBLEMS,
      async handle(request) {
        const reservations = requireReservations(context, request);
        const { search, ...paging } = request.query as Paging & { readonly search?: string };
        const page =
          search === undefined
            ? reservations.listResources(paging)
            : searchResources(reservations, { ...paging, search });
        return toPageAnswer(await page, toResourceJson);
      },
    },
    {
      method: "GET",
      path: "/v1/resources/{name}",
      id: "readResource",
      tag: "holds",
      summary: "Read one resource",
      roles: ROLES,
      params: { name: RESOURCE_NAME },
      answers: { 200: { description: "The resource.", schema: RESOURCE } },
      problems: ["not-found", ...PROBLEMS],
      async handle(request) {
        const reservations = requireReservations(context, request);
        const found = await reservations.resource(request.params.name as string);
        if (found !== undefined) return { status: 200, body: toResourceJson(found) };
        throw new NevertwiceError("not-found", "this resource was never declared and never had a hold.");
      },
    },
  ];
}

/** The key comes from the header, the scope and the actor from the access token; the body can set none of them. */
function keyAndScope(request: ApiRequest): Required<Keyed> {
  const { caller } = request;
  return { key: readKey(request), scope: callerScope(caller), actor: caller.name };
}

function objectSchema(
  properties: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", required, properties, additionalProperties: false };
}
