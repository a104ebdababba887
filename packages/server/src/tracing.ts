/**
 * Spans and metrics for OpenTelemetry, if an SDK was registered before the server starts (`node --import ./otel.js`).
 * Without an SDK this file adds no hooks and costs nothing.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type BatchObservableCallback,
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
import type { OutboxFigures } from "nevertwice/outbox";

import { OUTBOX_STATES } from "./metrics.ts";

const SCOPE = "@nevertwice/server";

/** Observers that report spans and metrics of guards, with the names in docs/telemetry.md. */
export function telemetryObservers(label: (operation: string) => string): readonly Observer[] {
  const isWatched = hasTraces() || metrics.getMeter(SCOPE) !== createNoopMeter();
  return isWatched ? [telemetry({ operation: label })] : [];
}

/** Gauges of the outbox, read whenever the SDK collects metrics. Returns how to stop. */
export function observeOutbox(read: () => Promise<ReadonlyMap<string, OutboxFigures>>): () => void {
  const meter = metrics.getMeter(SCOPE);
  if (meter === createNoopMeter()) return () => {};
  const messages = meter.createObservableGauge("nevertwice.outbox.messages", {
    unit: "{message}",
    description: "Messages that are not delivered yet, by state.",
  });
  const oldest = meter.createObservableGauge("nevertwice.outbox.oldest_age", {
    unit: "s",
    description: "Age of the oldest message that is neither parked nor behind another one.",
  });
  const observe: BatchObservableCallback = async (result) => {
    for (const [namespace, figures] of await read()) {
      for (const state of OUTBOX_STATES)
        result.observe(messages, figures[state], {
          "nevertwice.namespace": namespace,
          "nevertwice.state": state,
        });
      result.observe(oldest, (figures.oldestMs ?? 0) / 1_000, { "nevertwice.namespace": namespace });
    }
  };
  meter.addBatchObservableCallback(observe, [messages, oldest]);
  return () => meter.removeBatchObservableCallback(observe, [messages, oldest]);
}

/** Starts a span for each request to the API and the pages, as a child of the span in the request headers, if any. */
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
    // The pattern of the route, never the address, which may contain a key.
    if (span !== undefined) endRequest(span, request.method, request.routeOptions.url, reply.statusCode);
  });
}

/** The same for the gateway. It does not know the routes of the service, so its spans have no route pattern. */
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

/** Starts no span if an instrumentation of the SDK has already started one for the request. */
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

/** The OpenTelemetry API always returns a provider; this looks at whether an SDK is behind it. */
function hasTraces(): boolean {
  const provider = trace.getTracerProvider() as { getDelegateTracer?(name: string): unknown };
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer(SCOPE) !== undefined;
}
