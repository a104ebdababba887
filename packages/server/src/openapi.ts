/** The OpenAPI 3.1 document of the HTTP API, made of the routes that it describes. */
import type { ErrorCode } from "nevertwice";
import type { Answer, JsonSchema, Parameter, Route } from "./api/route.ts";
import { statusOf } from "./problems.ts";

/** What any operation may answer. */
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
    retryable: { type: "boolean", description: "Whether the same request may be sent again as it is." },
    id: { type: "string", description: "The id of the record that is in the way." },
    leaseLeftMs: {
      type: "integer",
      description: "With pending: how long the claim holds unless it is renewed.",
    },
    fence: { type: "integer", description: "With unknown: what a decision about it must name." },
  },
};

export function openapiOf(routes: readonly Route[], version: string): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    (paths[route.path] as Record<string, unknown>)[route.method.toLowerCase()] = operationOf(route);
  }
  return {
    openapi: "3.1.0",
    info: { title: "nevertwice", version, description: "Claims, events, holds and keys over HTTP." },
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      securitySchemes: { accessToken: { type: "http", scheme: "bearer" } },
    },
  };
}

function operationOf(route: Route): JsonSchema {
  const { id, tag, summary, description, params, query, headers, body, roles } = route;
  const parameters = [
    ...parametersOf("path", params, true),
    ...parametersOf("query", query),
    ...parametersOf("header", headers),
  ];
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        required: route.bodyIsOptional !== true,
        content: { "application/json": { schema: body } },
      },
    }),
    responses: responsesOf(route),
    security: [{ accessToken: [...roles] }],
  };
}

function parametersOf(
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

function responsesOf({ answers, problems, body }: Route): JsonSchema {
  const ofBody: readonly ErrorCode[] = body === undefined ? [] : ["body-too-large"];
  const codes = [...new Set([...ALWAYS, ...ofBody, ...problems])];
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const status = statusOf(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const statuses = [...new Set([...Object.keys(answers).map(Number), ...byStatus.keys()])];
  return Object.fromEntries(
    statuses.map((status) => [status, responseOf(answers[status], byStatus.get(status))]),
  );
}

/** One status may be an answer as well as a problem. */
function responseOf(answer: Answer | undefined, codes: readonly ErrorCode[] = []): JsonSchema {
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
