/**
 * What the server tells OpenTelemetry, if an SDK was registered before it: `node --import ./otel.js`. Without one there
 * is nothing here, and it costs nothing.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type Context,
  context,
  createNoopMeter,
  metrics,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { FastifyInstance } from "fastify";
import type { Observer } from "nevertwice";
import { telemetry } from "nevertwice/opentelemetry";

const SCOPE = "@nevertwice/server";

/** Spans and metrics of guards, with the names that docs/telemetry.md gives them. */
export function telemetryObservers(label: (operation: string) => string): readonly Observer[] {
  const isWatched = hasTraces() || metrics.getMeter(SCOPE) !== createNoopMeter();
  return isWatched ? [telemetry({ operation: label })] : [];
}

/** A span for each request of the API and the pages, under the caller's own if its headers name one. */
export function traceRequests(app: FastifyInstance): void {
  if (!hasTraces()) return;
  const spans = new WeakMap<IncomingMessage, Span>();
  app.addHook("onRequest", (request, _reply, done) => {
    const { span, within } = startRequest(request.raw);
    if (span !== undefined) spans.set(request.raw, span);
    context.with(within, done);
  });
  app.addHook("onResponse", async (request, reply) => {
    const span = spans.get(request.raw);
    // The pattern, never the address: that may hold a key.
    if (span !== undefined) endRequest(span, request.method, request.routeOptions.url, reply.statusCode);
  });
}

/** The same for the gateway: its requests are the service's, so it knows no pattern of their addresses. */
export function requestTracing(): (
  req: IncomingMessage,
  res: ServerResponse,
  serve: () => Promise<void>,
) => Promise<void> {
  if (!hasTraces()) return (_req, _res, serve) => serve();
  return (req, res, serve) => {
    const { span, within } = startRequest(req);
    if (span !== undefined)
      res.once("close", () => endRequest(span, req.method ?? "GET", undefined, res.statusCode));
    return context.with(within, serve);
  };
}

/** No span of ours where an instrumentation of the SDK has made one for the request. */
function startRequest({ method = "GET", headers }: IncomingMessage): { span?: Span; within: Context } {
  const around = context.active();
  if (trace.getSpan(around) !== undefined) return { within: around };
  const parent = propagation.extract(ROOT_CONTEXT, headers);
  const span = trace
    .getTracer(SCOPE)
    .startSpan(method, { kind: SpanKind.SERVER, attributes: { "http.request.method": method } }, parent);
  return { span, within: trace.setSpan(parent, span) };
}

function endRequest(span: Span, method: string, route: string | undefined, status: number): void {
  span.setAttribute("http.response.status_code", status);
  if (route !== undefined) span.updateName(`${method} ${route}`).setAttribute("http.route", route);
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

/** What the API hands out hides whether anybody is behind it. */
function hasTraces(): boolean {
  const provider = trace.getTracerProvider() as { getDelegateTracer?(name: string): unknown };
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer(SCOPE) !== undefined;
}
