/**
 * The spans of requests for OpenTelemetry, if an SDK was registered before the server starts (`node --import ./otel.js`).
 * Without an SDK this file adds no hooks and costs nothing.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { FastifyInstance } from "fastify";

const SCOPE = "@nevertwice/server";

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
