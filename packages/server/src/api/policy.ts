/** What clients may rely on, for machines: the rules of the gateway, and how long the API remembers. */
import { type HttpOptions, type IdempotencyPolicy, idempotencyPolicy } from "nevertwice/http";
import { ROLES } from "../access.ts";
import type { ServerConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { type GatewayRule, rulesOf } from "../gateway-rules.ts";
import { EVENT_RETENTION_MS } from "./events.ts";
import type { JsonSchema, Route } from "./route.ts";

const WINDOWS: JsonSchema = {
  type: "object",
  description: "In milliseconds. A request may say otherwise where the API lets it.",
  required: ["leaseMs", "retentionMs", "eventRetentionMs", "holdsWindowMs"],
  properties: {
    leaseMs: { type: "integer", description: "How long a claim holds unless it is renewed." },
    retentionMs: { type: "integer", description: "How long an outcome answers for its key." },
    eventRetentionMs: { type: "integer", description: "How long an event counts as seen." },
    holdsWindowMs: { type: "integer", description: "How long the key of a hold answers." },
  },
};

const POLICY_SCHEMA: JsonSchema = {
  type: "object",
  required: ["windows", "gateway"],
  properties: {
    windows: WINDOWS,
    gateway: {
      type: "array",
      description: "The rules of the gateway, of which the first that fits a request holds.",
      items: {
        type: "object",
        required: ["path", "methods", "onUpstreamLost", "policy"],
        properties: {
          path: { type: "string" },
          methods: { type: "array", items: { type: "string" } },
          onUpstreamLost: { enum: ["unknown", "release"] },
          policy: { type: "object", description: "The document that idempotencyPolicy makes of the rule." },
        },
      },
    },
  },
};

export function policyRoutes(context: Context): readonly Route[] {
  const config = context.settings as ServerConfig;
  return [
    {
      method: "GET",
      path: "/v1/policy",
      id: "policy",
      tag: "policy",
      summary: "What clients may rely on",
      roles: ROLES,
      answers: { 200: { description: "Windows and rules.", schema: POLICY_SCHEMA } },
      problems: [],
      handle() {
        const { lease: leaseMs, retention: retentionMs, holdsWindow: holdsWindowMs } = config;
        const windows = { leaseMs, retentionMs, eventRetentionMs: EVENT_RETENTION_MS, holdsWindowMs };
        const rules = config.upstream === undefined ? [] : rulesOf(config);
        const gateway = rules.map((rule) => {
          const { path, methods, onUpstreamLost } = rule;
          return { path, methods, onUpstreamLost, policy: documentOf(context, rule) };
        });
        return { status: 200, body: { windows, gateway } };
      },
    },
  ];
}

function documentOf(context: Context, rule: GatewayRule): IdempotencyPolicy {
  const { methods, required, scope, profile, leaseMs, retentionMs, onLapsed } = rule;
  const guard = context.guard(context.settings.namespace).with({ leaseMs, retentionMs, onLapsed });
  return idempotencyPolicy(guard, {
    methods: [...methods],
    required,
    // The document only says whether there is one.
    scope: scope === "anyone" ? "anyone" : () => "caller",
    ...(profile !== undefined && { profile: profile as NonNullable<HttpOptions<unknown>["profile"]> }),
  });
}
