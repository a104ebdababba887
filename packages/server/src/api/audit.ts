/**
 * The audit over HTTP: it verifies every invariant of holds from the stored records, shows the history of one hold, and
 * finds possible double bookings.
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
import { isOperator, type Role } from "../access.ts";
import type { Context } from "../context.ts";
import { HOLD_ID, NAMES, requireReservations } from "./holds.ts";
import { abbreviateKey } from "./record-json.ts";
import type { ApiRequest, ApiRoute, JsonSchema, Parameter } from "./route.ts";

const AUDIT_ROLES: readonly Role[] = ["auditor", "operator"];
const TEXT = "text/plain; charset=utf-8";
const OBJECT: JsonSchema = { type: "object" };

const PREVIOUS_COUNTS = ["previousCommitments", "previousEvents", "previousCheckpoints"] as const;
const COUNT: JsonSchema = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

const WINDOWS: Parameter = {
  schema: { type: "string", pattern: "^[1-9][0-9]{0,14}(,[1-9][0-9]{0,14})*$", maxLength: 1_000 },
  description:
    "Time windows that were ever configured, in milliseconds, separated by commas. Needed for records of earlier releases, which do not store their window. Default: the current window.",
};

const QUERY: Readonly<Record<string, Parameter>> = {
  windowsMs: WINDOWS,
  format: {
    schema: { type: "string", enum: ["json", "text"], default: "json" },
    description: "`text` has one line for each invariant, for people.",
  },
  maxOffenders: {
    schema: { type: "integer", minimum: 0, maximum: 10_000, default: 100 },
    description: "The most offenders that are listed for an invariant; all of them are counted.",
  },
  ...Object.fromEntries(
    PREVIOUS_COUNTS.map((name) => [
      name,
      {
        schema: COUNT,
        description:
          "A count from an earlier report. Give all three or none: the audit reports a count that has become smaller.",
      },
    ]),
  ),
};

export function auditRoutes(context: Context): readonly ApiRoute[] {
  return [
    reportRoute(context),
    {
      method: "GET",
      path: "/v1/audit/configuration",
      id: "readAuditConfiguration",
      tag: "audit",
      summary: "Read the configuration of holds, and which faults their store survives",
      roles: AUDIT_ROLES,
      answers: { 200: { description: "The configuration.", schema: OBJECT } },
      problems: ["not-supported"],
      handle: async (request) => ({
        status: 200,
        body: await requireReservations(context, request).configuration(),
      }),
    },
    traceRoute(context),
    doublesRoute(context),
  ];
}

function reportRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/audit",
    id: "audit",
    tag: "audit",
    summary: "Verify every invariant of holds from the stored records",
    description: "It reads all records of the namespace, which can take long.",
    roles: AUDIT_ROLES,
    query: QUERY,
    answers: {
      200: {
        description: "The verdict: `data` for programs, `page` as sections and rows for display.",
        schema: { type: "object", required: ["data", "page"], properties: { data: OBJECT, page: OBJECT } },
        alsoAs: ["text/plain"],
      },
    },
    problems: ["not-supported"],
    async handle(request) {
      const report = await requireReservations(context, request).auditReport(optionsIn(request));
      if (request.query.format === "text")
        return { status: 200, body: `${report}\n`, headers: { "content-type": TEXT } };
      const { data, page } = report;
      return { status: 200, body: { data, page } };
    },
  };
}

function optionsIn({ query, signal }: ApiRequest): AuditOptions {
  const [commitments, events, checkpoints] = PREVIOUS_COUNTS.map((name) => query[name] as number | undefined);
  const maxOffenders = query.maxOffenders as number | undefined;
  const options = { signal, ...windowsIn(query), ...(maxOffenders !== undefined && { maxOffenders }) };
  if (commitments === undefined && events === undefined && checkpoints === undefined) return options;
  if (commitments === undefined || events === undefined || checkpoints === undefined)
    throw new NevertwiceError(
      "request-invalid",
      `the query needs all of ${PREVIOUS_COUNTS.join(", ")}, or none.`,
    );
  return { ...options, previous: { commitments, events, checkpoints, resources: 0, keys: 0 } };
}

function windowsIn({ windowsMs }: ApiRequest["query"]): Pick<AuditOptions, "windowsMs"> {
  return typeof windowsMs === "string" ? { windowsMs: windowsMs.split(",").map(Number) } : {};
}

function traceRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/audit/holds/{id}",
    id: "traceHold",
    tag: "audit",
    summary: "Read the history of one hold, and the keys that caused it",
    roles: AUDIT_ROLES,
    params: { id: HOLD_ID },
    answers: { 200: { description: "The hold, its events and its keys.", schema: OBJECT } },
    problems: ["not-found", "not-supported"],
    async handle(request) {
      const trace = await requireReservations(context, request).trace(request.params.id as string);
      if (trace !== undefined) return { status: 200, body: shownTrace(trace, keyShower(request)) };
      throw new NevertwiceError("not-found", "no record and no event has this id.");
    },
  };
}

function doublesRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/audit/doubles",
    id: "findDoubles",
    tag: "audit",
    summary: "Find holds of the same resource and requester that were placed close together in time",
    roles: AUDIT_ROLES,
    query: {
      withinMs: {
        schema: COUNT,
        required: true,
        description: "The longest time between two such holds, in milliseconds.",
      },
      ...NAMES,
      windowsMs: WINDOWS,
      limit: {
        schema: { type: "integer", minimum: 0, maximum: 10_000, default: 1_000 },
        description: "The most pairs that are listed; all of them are counted.",
      },
    },
    answers: { 200: { description: "The pairs, each with a verdict.", schema: OBJECT } },
    problems: ["not-supported"],
    async handle(request) {
      const query = request.query as unknown as DoublesQuery;
      const doubles = await requireReservations(context, request).doubles({
        ...query,
        ...windowsIn(request.query),
      });
      const show = keyShower(request);
      return { status: 200, body: { ...doubles, pairs: doubles.pairs.map((pair) => shownPair(pair, show)) } };
    },
  };
}

type KeyShower = (record: KeyRecord) => KeyRecord;

/** Operators see whole keys; other roles see only their first characters. */
function keyShower({ caller }: ApiRequest): KeyShower {
  const isWhole = isOperator(caller);
  return (record) => (isWhole ? record : { ...record, key: abbreviateKey(record.key) });
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
