/**
 * The audit over HTTP: every invariant of holds verified from the stored records, one hold with all that happened to
 * it, and what looks like a double.
 */
import { NevertwiceError } from "nevertwice";
import type {
  AuditOptions,
  Double,
  DoubleSide,
  DoublesQuery,
  KeyRecord,
  KeyTrace,
  Trace,
} from "nevertwice/reservations";
import type { Role } from "../access.ts";
import type { Context } from "../context.ts";
import { HOLD_ID, NAMES, reservationsOf } from "./holds.ts";
import { beginningOf } from "./records.ts";
import type { ApiRequest, JsonSchema, Parameter, Route } from "./route.ts";

const READS: readonly Role[] = ["auditor", "operator"];
const TEXT = "text/plain; charset=utf-8";
const OBJECT: JsonSchema = { type: "object" };

const BEFORE = ["previousCommitments", "previousEvents", "previousCheckpoints"] as const;
const COUNT: JsonSchema = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

const QUERY: Readonly<Record<string, Parameter>> = {
  format: {
    schema: { type: "string", enum: ["json", "text"], default: "json" },
    description: "Text is for people: a line for each invariant.",
  },
  maxOffenders: {
    schema: { type: "integer", minimum: 0, maximum: 10_000, default: 100 },
    description: "How many offenders of an invariant are listed; the count goes on.",
  },
  ...Object.fromEntries(
    BEFORE.map((name) => [
      name,
      {
        schema: COUNT,
        description: "A count of an earlier report, all three or none: nothing may be fewer.",
      },
    ]),
  ),
};

export function auditRoutes(context: Context): readonly Route[] {
  return [
    reportRoute(context),
    {
      method: "GET",
      path: "/v1/audit/configuration",
      id: "readAuditConfiguration",
      tag: "audit",
      summary: "Says what this deployment decided about holds, and what their store survives",
      roles: READS,
      answers: { 200: { description: "The configuration.", schema: OBJECT } },
      problems: ["not-supported"],
      handle: async (request) => ({
        status: 200,
        body: await reservationsOf(context, request).configuration(),
      }),
    },
    traceRoute(context),
    doublesRoute(context),
  ];
}

function reportRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/audit",
    id: "audit",
    tag: "audit",
    summary: "Verifies every invariant of holds from the stored records",
    description: "It reads all records of the namespace, and takes as long as that does.",
    roles: READS,
    query: QUERY,
    answers: {
      200: {
        description: "The verdict: `data` for programs, `page` as sections and rows that can be drawn.",
        schema: { type: "object", required: ["data", "page"], properties: { data: OBJECT, page: OBJECT } },
        alsoAs: ["text/plain"],
      },
    },
    problems: ["not-supported"],
    async handle(request) {
      const report = await reservationsOf(context, request).auditReport(optionsIn(request));
      if (request.query.format === "text")
        return { status: 200, body: `${report}\n`, headers: { "content-type": TEXT } };
      const { data, page } = report;
      return { status: 200, body: { data, page } };
    },
  };
}

function optionsIn({ query, signal }: ApiRequest): AuditOptions {
  const [commitments, events, checkpoints] = BEFORE.map((name) => query[name] as number | undefined);
  const maxOffenders = query.maxOffenders as number | undefined;
  const options = { signal, ...(maxOffenders !== undefined && { maxOffenders }) };
  if (commitments === undefined && events === undefined && checkpoints === undefined) return options;
  if (commitments === undefined || events === undefined || checkpoints === undefined)
    throw new NevertwiceError("request-invalid", `the query needs all of ${BEFORE.join(", ")}, or none.`);
  return { ...options, previous: { commitments, events, checkpoints, resources: 0, keys: 0 } };
}

function traceRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/audit/holds/{id}",
    id: "traceHold",
    tag: "audit",
    summary: "Tells all that happened to one hold, and the keys behind it",
    roles: READS,
    params: { id: HOLD_ID },
    answers: { 200: { description: "The hold, its events and its keys.", schema: OBJECT } },
    problems: ["not-found", "not-supported"],
    async handle(request) {
      const trace = await reservationsOf(context, request).trace(request.params.id as string);
      if (trace !== undefined) return { status: 200, body: shownTrace(trace, keyShower(request)) };
      throw new NevertwiceError("not-found", "neither a record nor an event knows this id.");
    },
  };
}

function doublesRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/audit/doubles",
    id: "findDoubles",
    tag: "audit",
    summary: "Finds holds of one resource and one requester that were placed near each other",
    roles: READS,
    query: {
      withinMs: { schema: COUNT, required: true, description: "How near two of them were placed." },
      ...NAMES,
      limit: {
        schema: { type: "integer", minimum: 0, maximum: 10_000, default: 1_000 },
        description: "How many pairs are listed; the count goes on.",
      },
    },
    answers: { 200: { description: "The pairs, each with a verdict.", schema: OBJECT } },
    problems: ["not-supported"],
    async handle(request) {
      const query = request.query as unknown as DoublesQuery;
      const doubles = await reservationsOf(context, request).doubles(query);
      const show = keyShower(request);
      return { status: 200, body: { ...doubles, pairs: doubles.pairs.map((pair) => shownPair(pair, show)) } };
    },
  };
}

type KeyShower = (record: KeyRecord) => KeyRecord;

/** Keys in full are for operators; others know one by its id and its beginning. */
function keyShower({ caller }: ApiRequest): KeyShower {
  const isWhole = caller.roles.includes("operator");
  return (record) => (isWhole ? record : { ...record, key: beginningOf(record.key) });
}

function shownBy(by: KeyTrace | undefined, show: KeyShower): KeyTrace | undefined {
  return by && { ...by, record: by.record && show(by.record) };
}

function shownTrace(trace: Trace, show: KeyShower): Trace {
  const { placedBy, endedBy, events, keys } = trace;
  return {
    ...trace,
    placedBy: shownBy(placedBy, show),
    endedBy: shownBy(endedBy, show),
    events: events.map((event) => ({ ...event, by: shownBy(event.by, show) })),
    keys: keys.map(show),
  };
}

function shownPair(pair: Double, show: KeyShower): Double {
  const side = (own: DoubleSide) => ({ ...own, placedBy: shownBy(own.placedBy, show) });
  return { ...pair, first: side(pair.first), second: side(pair.second) };
}
