/**
 * Holds and resources over HTTP: the actions of reservations, each under the `Idempotency-Key` of its request. What is
 * refused is an answer like any other, in the words of reservations and kept under its key.
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
import type { Role } from "../access.ts";
import type { Context } from "../context.ts";
import {
  answerOf,
  DONE,
  HOLD,
  holdOf,
  PLACED,
  pageOf,
  pageSchema,
  REFUSALS,
  RESOURCE,
  resourceOf,
} from "./hold-answers.ts";
import { KEY_HEADER, keyOf } from "./key-header.ts";
import type { ApiRequest, JsonSchema, Parameter, Route } from "./route.ts";
import { scopeOf } from "./subjects.ts";

const ACTS: readonly Role[] = ["service"];
const DECLARES: readonly Role[] = ["service", "operator"];
const GOVERNS: readonly Role[] = ["operator"];
const READS: readonly Role[] = ["operator", "auditor"];
const LOOKS: readonly Role[] = ["service", "operator", "auditor"];

const NAME: JsonSchema = { type: "string", minLength: 1, maxLength: 1_024 };
const UNITS: JsonSchema = { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const CAPACITY: JsonSchema = { ...UNITS, minimum: 0 };

export const HOLD_ID: Parameter = {
  schema: { type: "string", pattern: "^[0-9a-f-]{36}$" },
  description: "The id that the hold was placed with.",
};
const RESOURCE_NAME: Parameter = { schema: NAME, description: "The name of the resource." };
export const NAMES: Readonly<Record<"resource" | "requester", Parameter>> = {
  resource: { schema: NAME, description: "Only of this resource." },
  requester: { schema: NAME, description: "Only of this requester." },
};
const PAGING: Readonly<Record<string, Parameter>> = {
  limit: {
    schema: { type: "integer", minimum: 1, maximum: 1_000, default: 100 },
    description: "How many at most.",
  },
  after: { schema: NAME, description: "The `next` of the page before." },
};
const STATE: Parameter = {
  schema: { type: "string", enum: ["held", "confirmed", "released", "expired"] },
  description: "Only in this state.",
};

const KEYED = { tag: "holds", headers: KEY_HEADER } as const;
const PROBLEMS = ["not-supported"] as const;
const KEYED_PROBLEMS = ["key-missing", "key-invalid", "body-too-large", "not-supported"] as const;
const DONE_ANSWERS = { 200: { description: "It is done.", schema: DONE }, ...REFUSALS };

/** Fails with `not-supported` if the server has no store that can keep holds. */
export function reservationsOf(context: Context, { caller }: Pick<ApiRequest, "caller">): Reservations {
  const reservations = context.holds(caller.namespace);
  if (reservations !== undefined) return reservations;
  throw new NevertwiceError(
    "not-supported",
    "the store of this server cannot keep holds; start it with --holds-store and the URL of one that can.",
  );
}

export function holdsRoutes(context: Context): readonly Route[] {
  return [
    placeRoute(context),
    ...ENDS.map((end) => endRoute(context, end)),
    ...readRoutes(context),
    declareRoute(context),
    ...CHANGES.map((change) => changeRoute(context, change)),
    ...resourceReadRoutes(context),
  ];
}

function placeRoute(context: Context): Route {
  return {
    ...KEYED,
    method: "POST",
    path: "/v1/holds",
    id: "placeHold",
    summary: "Holds units of a resource for a while",
    roles: ACTS,
    body: objectOf({ resource: NAME, requester: NAME, durationMs: UNITS, units: UNITS }, ["units"]),
    answers: { 201: { description: "It is held.", schema: PLACED }, ...REFUSALS },
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const reservations = reservationsOf(context, request);
      const asked = request.body as Omit<HoldRequest, keyof Keyed>;
      return answerOf(await reservations.placeHold({ ...asked, ...keyed(request) }));
    },
  };
}

const ENDS = [
  { action: "confirm", path: "confirm", id: "confirmHold", what: "Makes a hold final, all of it or some" },
  { action: "release", path: "release", id: "releaseHold", what: "Gives a hold up" },
  { action: "expire", path: "expire", id: "expireHold", what: "Writes down that a hold's time is over" },
  { action: "giveBack", path: "give-back", id: "giveBack", what: "Gives back what was confirmed" },
] as const;

function endRoute(context: Context, { action, path, id, what }: (typeof ENDS)[number]): Route {
  const hasUnits = action === "confirm" || action === "giveBack";
  return {
    ...KEYED,
    method: "POST",
    path: `/v1/holds/{id}/${path}`,
    id,
    summary: what,
    roles: ACTS,
    params: { id: HOLD_ID },
    body: objectOf(hasUnits ? { units: UNITS } : {}, ["units"]),
    bodyIsOptional: true,
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const act: (asked: UnitsRequest) => Promise<Done | Rejected> = reservationsOf(context, request)[action];
      const asked = (request.body ?? {}) as Pick<UnitsRequest, "units">;
      return answerOf(await act({ ...asked, id: request.params.id as string, ...keyed(request) }));
    },
  };
}

function readRoutes(context: Context): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/v1/holds",
      id: "listHolds",
      tag: "holds",
      summary: "Lists holds in every state, or in one",
      roles: READS,
      query: { state: STATE, ...NAMES, ...PAGING },
      answers: { 200: { description: "A page of holds.", schema: pageSchema(HOLD) } },
      problems: PROBLEMS,
      async handle(request) {
        const reservations = reservationsOf(context, request);
        const query = request.query as Paging & { readonly state?: CommitmentState };
        return pageOf(await reservations.list(query), holdOf);
      },
    },
    {
      method: "GET",
      path: "/v1/holds/{id}",
      id: "readHold",
      tag: "holds",
      summary: "Reads one hold",
      roles: LOOKS,
      params: { id: HOLD_ID },
      answers: { 200: { description: "The hold.", schema: HOLD } },
      problems: ["not-found", ...PROBLEMS],
      async handle(request) {
        const found = await reservationsOf(context, request).get(request.params.id as string);
        if (found !== undefined) return { status: 200, body: holdOf(found) };
        throw new NevertwiceError("not-found", "there is no hold with this id.");
      },
    },
  ];
}

function declareRoute(context: Context): Route {
  return {
    ...KEYED,
    method: "POST",
    path: "/v1/resources",
    id: "declareResource",
    summary: "Says how many units of a resource there are",
    description: "A resource that nobody declared has one unit.",
    roles: DECLARES,
    body: objectOf({ resource: NAME, capacity: CAPACITY }),
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const { resources } = reservationsOf(context, request);
      const asked = request.body as Omit<CapacityRequest, keyof Keyed>;
      return answerOf(await resources.declare({ ...asked, ...keyed(request) }));
    },
  };
}

const CHANGES = [
  { action: "adjust", id: "adjustResource", what: "Changes how many units there are" },
  { action: "suspend", id: "suspendResource", what: "Lets nothing new be held for now" },
  { action: "resume", id: "resumeResource", what: "Lets holds be placed again" },
  { action: "close", id: "closeResource", what: "Lets nothing new be held, for good" },
] as const;

function changeRoute(context: Context, { action, id, what }: (typeof CHANGES)[number]): Route {
  const hasCapacity = action === "adjust";
  return {
    ...KEYED,
    method: "POST",
    path: `/v1/resources/{name}/${action}`,
    id,
    summary: what,
    roles: GOVERNS,
    params: { name: RESOURCE_NAME },
    body: objectOf(hasCapacity ? { capacity: CAPACITY } : {}),
    ...(!hasCapacity && { bodyIsOptional: true }),
    answers: DONE_ANSWERS,
    problems: KEYED_PROBLEMS,
    async handle(request) {
      const { resources } = reservationsOf(context, request);
      const act = resources[action] as (asked: Omit<CapacityRequest, "capacity">) => Promise<Done | Rejected>;
      const asked = (request.body ?? {}) as Partial<CapacityRequest>;
      return answerOf(await act({ ...asked, resource: request.params.name as string, ...keyed(request) }));
    },
  };
}

function resourceReadRoutes(context: Context): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/v1/resources",
      id: "listResources",
      tag: "holds",
      summary: "Lists resources that were declared, or that something was held of",
      roles: READS,
      query: PAGING,
      answers: { 200: { description: "A page of resources.", schema: pageSchema(RESOURCE) } },
      problems: PROBLEMS,
      async handle(request) {
        const reservations = reservationsOf(context, request);
        return pageOf(await reservations.listResources(request.query as Paging), resourceOf);
      },
    },
    {
      method: "GET",
      path: "/v1/resources/{name}",
      id: "readResource",
      tag: "holds",
      summary: "Reads one resource",
      roles: LOOKS,
      params: { name: RESOURCE_NAME },
      answers: { 200: { description: "The resource.", schema: RESOURCE } },
      problems: ["not-found", ...PROBLEMS],
      async handle(request) {
        const reservations = reservationsOf(context, request);
        const found = await reservations.resource(request.params.name as string);
        if (found !== undefined) return { status: 200, body: resourceOf(found) };
        throw new NevertwiceError("not-found", "nobody declared this resource, and nothing was held of it.");
      },
    },
  ];
}

/** The key is the request's, and its scope the credential's: a body cannot say whose it is. */
function keyed(request: ApiRequest): Required<Keyed> {
  return { key: keyOf(request), scope: scopeOf(request.caller) };
}

function objectOf(
  properties: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", required, properties, additionalProperties: false };
}
