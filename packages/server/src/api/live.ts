/**
 * Live figures for the dashboard: one snapshot, or a stream with one a second. They count events of this server only and
 * contain no keys. A caller sees its own namespace; the token of the configuration, and callers that need no token, see
 * all namespaces together.
 */
import { type Caller, ROLES, visibleNamespace, WATCHERS } from "../access.ts";
import type { Context } from "../context.ts";
import { RATES } from "../live.ts";
import type { SnapshotJson } from "./api-json.ts";
import { createDoctor, DIAGNOSIS_SCHEMA } from "./doctor.ts";
import { createLiveStreams } from "./live-streams.ts";
import { NETWORK_FIGURES_SCHEMA } from "./pipelines.ts";
import type { ApiRoute, JsonSchema } from "./route.ts";
import { createUndecided, UNDECIDED_SCHEMA } from "./undecided.ts";

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
  required: ["at", "inFlight", "seconds", "store", "undecided", "pipelines"],
  properties: {
    at: { type: "integer", description: "Milliseconds since the epoch." },
    inFlight: {
      type: "integer",
      description: "Number of runs of guarded work that this server has in flight.",
    },
    seconds: { type: "array", items: SECOND_SCHEMA, description: "The last minute, oldest first." },
    pipelines: {
      type: "array",
      items: NETWORK_FIGURES_SCHEMA,
      description: "The networks that run in this server's process.",
    },
    store: {
      type: ["object", "null"],
      description:
        "The store and the most severe fault that a claim survives; null while the store does not answer.",
      required: ["title", "rung"],
      properties: { title: { type: "string" }, rung: { type: ["string", "null"] } },
    },
    undecided: UNDECIDED_SCHEMA,
  },
};

export function liveRoutes(context: Context): readonly ApiRoute[] {
  const doctor = createDoctor(context.store);
  const undecidedIn = createUndecided(context);
  async function snapshot(caller: Caller): Promise<SnapshotJson> {
    const namespace = visibleNamespace(caller);
    const undecided = await undecidedIn(caller.namespace);
    const store = await doctor().then(
      ({ title, rung }) => ({ title, rung }),
      () => null,
    );
    const { live } = context;
    const pipelines = await context.pipelines.figures(namespace);
    const [inFlight, seconds] = [live.inFlight(namespace), live.seconds(SECONDS, namespace)];
    return { at: Date.now(), inFlight, seconds, store, undecided, pipelines };
  }
  const streams = createLiveStreams(snapshot);
  const shared = { method: "GET", tag: "live", roles: WATCHERS, problems: [] } as const;
  return [
    {
      ...shared,
      path: "/v1/live",
      id: "live",
      summary: "Read the figures of the last minute",
      answers: { 200: { description: "One snapshot.", schema: SNAPSHOT_SCHEMA } },
      handle: async ({ caller }) => ({ status: 200, body: await snapshot(caller) }),
    },
    {
      ...shared,
      path: "/v1/live/stream",
      id: "liveStream",
      summary: "Stream the figures of the last minute, once a second",
      answers: {
        200: {
          description: "Server-sent events; the data of each is a snapshot.",
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
      summary: "Read which faults an acknowledged claim survives on this store",
      answers: { 200: { description: "The findings of the doctor.", schema: DIAGNOSIS_SCHEMA } },
      handle: async () => ({ status: 200, body: await doctor() }),
    },
  ];
}
