/** Makes the OpenAPI 3.1 document of the HTTP API from its routes. */
import type { ErrorCode } from "nevertwice";
import type { ApiRoute, JsonSchema, Parameter, RouteAnswer } from "./api/route.ts";
import { problemStatus } from "./problems.ts";

/** The errors that every operation can return. */
const ALWAYS: readonly ErrorCode[] = [
  "request-invalid",
  "not-authenticated",
  "not-authorized",
  "quota-exceeded",
  "unavailable",
];

const PROBLEM: JsonSchema = {
  type: "object",
  required: ["type", "title", "status", "detail", "code", "retryable"],
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    code: { type: "string" },
    retryable: { type: "boolean", description: "Whether sending the same request again can succeed." },
    id: { type: "string", description: "The id of the record that the request conflicts with." },
    leaseLeftMs: {
      type: "integer",
      description: "With pending: how long the claim is valid unless it is renewed.",
    },
    elapsedMs: {
      type: "integer",
      minimum: 0,
      description: "With pending: how long the other attempt has run.",
    },
    fence: {
      type: "integer",
      description: "With unknown: the fence that a decision about the key must send.",
    },
  },
};

/** Every tag of a route, in the order in which documents show them. */
const TAGS: Readonly<Record<string, string>> = {
  claims: "Claim a key, do the work elsewhere, and complete the claim.",
  events: "Mark events as seen, for consumers of webhooks and messages.",
  holds: "Hold a resource, and confirm, release or expire the hold once.",
  keys: "List keys, and decide about them.",
  outbox: "Messages that wait for delivery.",
  pipelines: "Networks of nodes that run in this server.",
  audit: "Verify every invariant of holds from the stored records.",
  policy: "What this server promises about keys.",
  live: "Figures of this server and of all servers on its store.",
};

const REPOSITORY = "https://github.com/nevertwice/nevertwice";

export function openApiDocument(routes: readonly ApiRoute[], version: string): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    (paths[route.path] as Record<string, unknown>)[route.method.toLowerCase()] = toOperation(route);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "nevertwice",
      version,
      description: "Claims, events, holds, messages and keys over HTTP.",
      contact: { name: "nevertwice", url: REPOSITORY },
      license: { name: "MIT", identifier: "MIT" },
    },
    // Relative to the address of this document: the server cannot know by which address, and over which protocol, a proxy shows it.
    servers: [{ url: "/", description: "The server that this document comes from." }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      securitySchemes: { accessToken: { type: "http", scheme: "bearer" } },
    },
  };
}

function toOperation(route: ApiRoute): JsonSchema {
  const { id, tag, summary, description, params, query, headers, body, roles } = route;
  const parameters = [
    ...toParameters("path", params, true),
    ...toParameters("query", query),
    ...toParameters("header", headers),
  ];
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: [...(description === undefined ? [] : [description]), rolesSentence(roles)].join(" "),
    "x-roles": [...roles],
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        required: route.bodyIsOptional !== true,
        content: { "application/json": { schema: body } },
      },
    }),
    responses: toResponses(route),
    security: [{ accessToken: [] }],
  };
}

function rolesSentence(roles: ApiRoute["roles"]): string {
  return roles.length === 0 ? "Every role may call it." : `Roles that may call it: ${roles.join(", ")}.`;
}

function toParameters(
  place: string,
  parameters: Readonly<Record<string, Parameter>> = {},
  isAlwaysRequired = false,
): readonly JsonSchema[] {
  return Object.entries(parameters).map(([name, { schema, required = false, description }]) => ({
    name,
    in: place,
    required: required || isAlwaysRequired,
    schema,
    description,
  }));
}

function toResponses({ answers, problems, body }: ApiRoute): JsonSchema {
  const ofBody: readonly ErrorCode[] = body === undefined ? [] : ["body-too-large"];
  const codes = [...new Set([...ALWAYS, ...ofBody, ...problems])];
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const status = problemStatus(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const statuses = [...new Set([...Object.keys(answers).map(Number), ...byStatus.keys()])];
  return Object.fromEntries(
    statuses.map((status) => [status, toResponse(answers[status], byStatus.get(status))]),
  );
}

/** A status can be both an answer and a problem. */
function toResponse(answer: RouteAnswer | undefined, codes: readonly ErrorCode[] = []): JsonSchema {
  const { description, schema, type = "application/json" } = answer ?? {};
  const problem = { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } };
  const content = {
    ...(schema !== undefined && { [type]: { schema } }),
    ...Object.fromEntries((answer?.alsoAs ?? []).map((other) => [other, { schema: { type: "string" } }])),
    ...(codes.length > 0 && problem),
  };
  return {
    description: [...(description === undefined ? [] : [description]), ...codes].join(", "),
    ...(Object.keys(content).length > 0 && { content }),
  };
}
