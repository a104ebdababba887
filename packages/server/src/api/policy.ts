/** `GET /v1/policy`: the rules of the gateway and the time windows of the API, for programs. */
import { type HttpOptions, type IdempotencyPolicy, idempotencyPolicy } from "nevertwice/http";
import { ROLES } from "../access.ts";
import type { ServerConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { type GatewayRule, gatewayRules } from "../gateway/gateway-rules.ts";
import { EVENT_RETENTION_MS } from "./events.ts";
import type { ApiRoute, JsonSchema } from "./route.ts";

const WINDOWS: JsonSchema = {
  type: "object",
  description: "In milliseconds. Some routes let a request choose another value.",
  required: ["leaseMs", "retentionMs", "eventRetentionMs", "holdsWindowMs"],
  properties: {
    leaseMs: { type: "integer", description: "How long a claim is valid unless it is renewed." },
    retentionMs: { type: "integer", description: "How long an outcome is stored." },
    eventRetentionMs: { type: "integer", description: "How long a mark of an event is stored." },
    holdsWindowMs: { type: "integer", description: "How long the answer to the key of a hold is stored." },
  },
};

const POLICY_SCHEMA: JsonSchema = {
  type: "object",
  required: ["windows", "gateway"],
  properties: {
    windows: WINDOWS,
    gateway: {
      type: "array",
      description: "The rules of the gateway; the first that matches a request applies.",
      items: {
        type: "object",
        required: ["path", "methods", "onUpstreamLost", "policy"],
        properties: {
          path: { type: "string" },
          methods: { type: "array", items: { type: "string" } },
          onUpstreamLost: { enum: ["unknown", "release"] },
          policy: {
            type: "object",
            description: "The policy document of the rule, as idempotencyPolicy returns it.",
          },
        },
      },
    },
  },
};

export function policyRoutes(context: Context): readonly ApiRoute[] {
  const config = context.settings as ServerConfig;
  return [
    {
      method: "GET",
      path: "/v1/policy",
      id: "policy",
      tag: "policy",
      summary: "Read the rules of the gateway and the time windows of the API",
      roles: ROLES,
      answers: { 200: { description: "The windows and rules.", schema: POLICY_SCHEMA } },
      problems: [],
      handle() {
        const { lease: leaseMs, retention: retentionMs, holdsWindow: holdsWindowMs } = config;
        const windows = { leaseMs, retentionMs, eventRetentionMs: EVENT_RETENTION_MS, holdsWindowMs };
        const rules = config.upstream === undefined ? [] : gatewayRules(config);
        const gateway = rules.map((rule) => {
          const { path, methods, onUpstreamLost } = rule;
          return { path, methods, onUpstreamLost, policy: policyDocument(context, rule) };
        });
        return { status: 200, body: { windows, gateway } };
      },
    },
  ];
}

function policyDocument(context: Context, rule: GatewayRule): IdempotencyPolicy {
  const { methods, required, scope, profile, leaseMs, retentionMs, onLapsed } = rule;
  const guard = context.guard(context.settings.namespace).with({ leaseMs, retentionMs, onLapsed });
  return idempotencyPolicy(guard, {
    methods: [...methods],
    required,
    // The document only says whether there is a scope.
    scope: scope === "anyone" ? "anyone" : () => "caller",
    ...(profile !== undefined && { profile: profile as NonNullable<HttpOptions<unknown>["profile"]> }),
  });
}
