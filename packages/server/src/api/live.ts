/**
 * What happens now: one picture, or one a second, for a dashboard. Counts of this server alone, and no key. A caller
 * sees its own namespace; the token of the configuration, and callers that need none, see all of them together.
 */
import { figuresFor, ROLES, WATCHERS } from "../access.ts";
import type { Context } from "../context.ts";
import { RATES } from "../live.ts";
import { createDoctor, DIAGNOSIS_SCHEMA } from "./doctor.ts";
import { createStreams } from "./live-streams.ts";
import type { JsonSchema, Route } from "./route.ts";

const SECONDS = 60;

const SECOND_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "counts", "ranMs"],
  properties: {
    at: { type: "integer", description: "Seconds since the epoch." },
    counts: {
      type: "object",
      required: RATES,
      properties: Object.fromEntries(RATES.map((rate) => [rate, { type: "integer" }])),
    },
    ranMs: {
      type: "object",
      required: ["count", "p50", "p99"],
      properties: { count: { type: "integer" }, p50: { type: "number" }, p99: { type: "number" } },
    },
  },
};

const SNAPSHOT_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "inFlight", "seconds", "store"],
  properties: {
    at: { type: "integer", description: "Milliseconds since the epoch." },
    inFlight: { type: "integer", description: "Work that runs behind this server now." },
    seconds: { type: "array", items: SECOND_SCHEMA, description: "The last minute, oldest first." },
    store: {
      type: ["object", "null"],
      description: "The doctor's row; null while the store does not answer.",
      required: ["title", "rung"],
      properties: { title: { type: "string" }, rung: { type: ["string", "null"] } },
    },
  },
};

export function liveRoutes(context: Context): readonly Route[] {
  const doctor = createDoctor(context.store);
  async function snapshot(namespace: string | undefined) {
    const store = await doctor().then(
      ({ title, rung }) => ({ title, rung }),
      () => null,
    );
    const { live } = context;
    const [inFlight, seconds] = [live.inFlight(namespace), live.seconds(SECONDS, namespace)];
    return { at: Date.now(), inFlight, seconds, store };
  }
  const streams = createStreams(snapshot);
  const shared = { method: "GET", tag: "live", roles: WATCHERS, problems: [] } as const;
  return [
    {
      ...shared,
      path: "/v1/live",
      id: "live",
      summary: "What happened in the last minute",
      answers: { 200: { description: "One picture.", schema: SNAPSHOT_SCHEMA } },
      handle: async ({ caller }) => ({ status: 200, body: await snapshot(figuresFor(caller)) }),
    },
    {
      ...shared,
      path: "/v1/live/stream",
      id: "liveStream",
      summary: "The same, once a second",
      answers: {
        200: {
          description: "Server-sent events, each with a picture as its data.",
          type: "text/event-stream",
          schema: { type: "string" },
        },
      },
      handle: (request) => ({ status: 200, body: streams.open(request) }),
      close: streams.close,
    },
    {
      ...shared,
      roles: ROLES,
      path: "/v1/doctor",
      id: "doctor",
      summary: "Which faults an acknowledged claim survives on this store",
      answers: { 200: { description: "The doctor's findings.", schema: DIAGNOSIS_SCHEMA } },
      handle: async () => ({ status: 200, body: await doctor() }),
    },
  ];
}
