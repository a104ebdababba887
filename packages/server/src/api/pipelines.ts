/** The networks that run in this server's process, and the journeys of their messages. A caller sees its own namespace. */
import { NevertwiceError } from "nevertwice";
import { visibleNamespace, WATCHERS } from "../access.ts";
import type { Context } from "../context.ts";
import { JOURNEY_ENDINGS, type Journey, type Journeys } from "../pipelines/journeys.ts";
import { NODE_COUNTS } from "../pipelines/pipeline-figures.ts";
import type { JourneyPageJson } from "./api-json.ts";
import { abbreviateKey } from "./record-json.ts";
import type { ApiRequest, ApiRoute, JsonSchema } from "./route.ts";

const TEXT: JsonSchema = { type: "string" };
const TEXT_OR_NULL: JsonSchema = { type: ["string", "null"] };
const COUNT: JsonSchema = { type: "integer" };
const TEXTS: JsonSchema = { type: "array", items: TEXT };
const NAMED_TEXTS: JsonSchema = { type: "object", additionalProperties: TEXT };

function objectSchema(
  properties: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  return {
    type: "object",
    required: Object.keys(properties).filter((name) => !optional.includes(name)),
    properties,
  };
}

const NODE_SCHEMA = objectSchema({
  ...{
    name: TEXT,
    kind: { enum: ["source", "transform", "router", "sink"] },
    intent: TEXT_OR_NULL,
    owner: TEXT_OR_NULL,
  },
  ...{ in: TEXTS, out: TEXTS, effects: TEXTS, concurrency: COUNT, retries: COUNT },
  buffer: { type: "integer", description: "How many messages may wait, at all in-ports together." },
  key: { type: ["array", "null"], items: TEXT, description: "The fields of its key." },
  keyScope: { type: ["string", "null"], description: "The scope of its keys in `/v1/keys`." },
  timeoutMs: { type: ["integer", "null"] },
  groups: { enum: ["batch", "join", null] },
});

const NETWORK_SCHEMA = objectSchema({
  ...{ id: TEXT, version: TEXT },
  startedAt: { type: "integer", description: "Milliseconds since the epoch." },
  hiddenNodes: { type: "integer", description: "How many nodes are left out because there are too many." },
  nodes: { type: "array", items: NODE_SCHEMA },
  edges: { type: "array", items: objectSchema({ from: TEXT, to: TEXT }) },
  exposed: objectSchema({ in: NAMED_TEXTS, out: NAMED_TEXTS }),
});

/** The figures of the networks in `GET /v1/live`. */
export const NETWORK_FIGURES_SCHEMA = objectSchema({
  id: TEXT,
  status: { enum: ["running", "stopping", "stopped"] },
  underWay: { type: "integer", description: "Messages that entered and are not settled." },
  notFollowed: {
    type: "integer",
    description: "Messages without a journey, because too many others were followed.",
  },
  nodes: {
    type: "array",
    items: objectSchema({
      ...{ name: TEXT, waiting: COUNT, active: COUNT, restarts: COUNT },
      held: {
        type: ["integer", "null"],
        description:
          "Keys of the node that wait for a decision, at most 100; null if it is not known or has no key.",
      },
      counts: objectSchema(Object.fromEntries(NODE_COUNTS.map((name) => [name, COUNT]))),
      perSecond: { type: "number", description: "Completed messages a second, over the last ten seconds." },
      ranMs: objectSchema({ count: COUNT, p50: { type: "number" }, p95: { type: "number" } }),
      ports: { type: "object", additionalProperties: COUNT },
    }),
  },
});

const STEP_SCHEMA = objectSchema(
  {
    ...{ at: COUNT, kind: TEXT, node: TEXT, id: TEXT },
    detail: { type: "object", description: "What the event says, without payloads, keys and errors." },
  },
  ["node"],
);

const SUMMARY = {
  ...{ number: COUNT, trace: TEXT, startedAt: COUNT, lastAt: COUNT, ending: { enum: JOURNEY_ENDINGS } },
  ...{ nodes: TEXTS, reason: TEXT, leftOut: COUNT },
};

const MAX_LISTED = 100;

export function pipelineRoutes({ pipelines }: Context): readonly ApiRoute[] {
  const shared = { method: "GET", tag: "pipelines", roles: WATCHERS } as const;
  const network = { network: { schema: TEXT, description: "The id of the network." } };

  function journeysFor({ params, caller }: ApiRequest): Journeys {
    const journeys = pipelines.journeys(params.network ?? "", visibleNamespace(caller));
    if (journeys === undefined)
      throw new NevertwiceError("not-found", "no network with this id runs in this server.");
    return journeys;
  }

  return [
    {
      ...shared,
      path: "/v1/pipelines",
      id: "pipelines",
      summary: "List the networks that run in this server",
      answers: {
        200: {
          description: "Each network with its nodes and edges. Their figures are in `/v1/live`.",
          schema: objectSchema({ networks: { type: "array", items: NETWORK_SCHEMA } }),
        },
      },
      problems: [],
      handle: ({ caller }) => ({
        status: 200,
        body: { networks: pipelines.networks(visibleNamespace(caller)) },
      }),
    },
    {
      ...shared,
      path: "/v1/pipelines/{network}/journeys",
      id: "journeys",
      summary: "List the latest journeys of messages through a network",
      params: network,
      query: {
        ending: {
          schema: { enum: JOURNEY_ENDINGS },
          description: "Only journeys that ended like this, or that are running.",
        },
        message: {
          schema: TEXT,
          description: "Only journeys of the message with this id, or with this trace.",
        },
        limit: {
          schema: { type: "integer", minimum: 1, maximum: MAX_LISTED },
          description: "The most journeys; 50 if not given.",
        },
      },
      answers: {
        200: {
          description: "Journeys without their steps, the newest first.",
          schema: objectSchema({ journeys: { type: "array", items: objectSchema(SUMMARY, ["reason"]) } }),
        },
      },
      problems: ["not-found"],
      handle(request) {
        const { ending, message, limit = 50 } = request.query as JourneyQuery;
        const found = journeysFor(request).list({
          ...(ending !== undefined && { ending }),
          ...(message !== undefined && { message }),
          limit,
        });
        const journeys = found
          .map((one) => shownTo(request.caller, one))
          .map(({ steps: _, ...summary }) => summary);
        const body: JourneyPageJson = { journeys };
        return { status: 200, body };
      },
    },
    {
      ...shared,
      path: "/v1/pipelines/{network}/journeys/{number}",
      id: "journey",
      summary: "Read the journey of a message, step by step",
      params: {
        ...network,
        number: { schema: { type: "integer", minimum: 1 }, description: "The number of the journey." },
      },
      answers: {
        200: {
          description: "The journey from the entry of the message to its end.",
          schema: objectSchema({ ...SUMMARY, steps: { type: "array", items: STEP_SCHEMA } }, ["reason"]),
        },
      },
      problems: ["not-found"],
      handle(request) {
        const found: Journey | undefined = journeysFor(request).find(Number(request.params.number));
        if (found === undefined)
          throw new NevertwiceError("not-found", "there is no such journey; only the latest ones are kept.");
        return { status: 200, body: shownTo(request.caller, found) };
      },
    },
  ];
}

/** Senders may use the key as the id of a message, so an auditor sees as much of an id as of a key. */
function shownTo({ roles }: ApiRequest["caller"], journey: Journey): Journey {
  if (roles.includes("operator")) return journey;
  const steps = journey.steps.map(({ detail: { parents: _, ...detail }, id, ...step }) => ({
    ...step,
    id: abbreviateKey(id),
    detail,
  }));
  return { ...journey, trace: abbreviateKey(journey.trace), steps };
}

interface JourneyQuery {
  readonly ending?: string;
  readonly message?: string;
  readonly limit?: number;
}
