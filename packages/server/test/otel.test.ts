/** Tests the spans and metrics that an OpenTelemetry SDK gets if it was registered before the server, as `node --import` does. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { context, metrics, propagation, SpanKind, trace } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";
import {
  createMetricsSdk,
  createTracesSdk,
  registerContextManager,
} from "../../nevertwice/test/telemetry/sdk.ts";
import { createServer } from "../src/index.ts";
import { createMetrics } from "../src/metrics.ts";

const W3C = {
  inject: () => {},
  extract: (into: ReturnType<typeof context.active>, carrier: { traceparent?: string }) => {
    const [, traceId, spanId] = carrier.traceparent?.split("-") ?? [];
    if (traceId === undefined || spanId === undefined) return into;
    return trace.setSpanContext(into, { traceId, spanId, traceFlags: 1, isRemote: true });
  },
  fields: () => ["traceparent"],
};

afterEach(() => {
  for (const api of [trace, metrics, context, propagation]) api.disable();
});

async function started() {
  const server = await createServer({ store: "memory:", logLevel: "silent" });
  await server.app.ready();
  return {
    server,
    claim: (key: string, headers: object = {}) =>
      server.app.inject({
        method: "POST",
        url: "/v1/claims",
        headers: { host: "localhost", ...headers },
        payload: { operation: "charge", key },
      }),
  };
}

test("a request has a span below the caller's span, named by its route and never by the key", async () => {
  const { tracerProvider, spans } = createTracesSdk();
  trace.setGlobalTracerProvider(tracerProvider);
  propagation.setGlobalPropagator(W3C);
  registerContextManager();
  const { server, claim } = await started();
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const { id } = (await claim("order-secret", { traceparent: `00-${traceId}-b7ad6b7169203331-01` })).json();
  await server.app.inject({ method: "GET", url: `/v1/claims/${id}`, headers: { host: "localhost" } });
  await server.close();

  const [first, second] = spans().filter(({ kind }) => kind === SpanKind.SERVER);
  expect(first?.spanContext().traceId).toBe(traceId);
  expect(first?.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
  expect([first?.name, first?.attributes]).toEqual([
    "POST /v1/claims",
    { "http.request.method": "POST", "http.route": "/v1/claims", "http.response.status_code": 201 },
  ]);
  expect(second?.attributes["http.route"]).toBe("/v1/claims/:id");
  const told = JSON.stringify(spans().map(({ name, attributes }) => [name, attributes]));
  for (const secret of ["order-secret", id]) expect(told).not.toContain(secret);
});

test("guarded work has a span inside the request's span, and is counted", async () => {
  const { tracerProvider, spans } = createTracesSdk();
  const { meterProvider, counts } = createMetricsSdk();
  trace.setGlobalTracerProvider(tracerProvider);
  metrics.setGlobalMeterProvider(meterProvider);
  registerContextManager();
  const server = await createServer({ store: "memory:", logLevel: "silent" });
  server.app.get("/work", async () => {
    await server.context.guard("default").run({ operation: "work", key: "1" }, async () => "done");
    return "done";
  });
  await server.app.inject({ method: "GET", url: "/work", headers: { host: "localhost" } });
  await server.close();

  const request = spans().find(({ kind }) => kind === SpanKind.SERVER);
  const work = spans().find(({ name }) => name === "nevertwice work");
  expect(work?.parentSpanContext?.spanId).toBe(request?.spanContext().spanId);
  expect(await counts("nevertwice.claims")).toEqual({ "answer=new, namespace=default, operation=work": 1 });
});

test("the server makes no second span if an instrumentation made one for the request", async () => {
  const { tracerProvider, spans } = createTracesSdk();
  trace.setGlobalTracerProvider(tracerProvider);
  registerContextManager();
  const { server, claim } = await started();
  const around = trace.getTracer("theirs").startSpan("theirs", { kind: SpanKind.SERVER });
  await context.with(trace.setSpan(context.active(), around), async () => claim("order-1"));
  around.end();
  await server.close();
  expect(spans().filter(({ kind }) => kind === SpanKind.SERVER)).toHaveLength(1);
});

test("a request through the gateway has a span with the guard's span inside, and the service gets the caller's trace", async () => {
  const { tracerProvider, spans } = createTracesSdk();
  trace.setGlobalTracerProvider(tracerProvider);
  propagation.setGlobalPropagator(W3C);
  registerContextManager();
  let heard: string | undefined;
  const service = createHttpServer((req, res) => {
    heard = req.headers.traceparent?.toString();
    res.writeHead(201).end("made");
  });
  await once(service.listen(0, "127.0.0.1"), "listening");
  const any = { host: "127.0.0.1", port: 0 };
  const server = await createServer({
    store: "memory:",
    logLevel: "silent",
    listen: any,
    gatewayListen: any,
    gatewayScope: "anyone",
    upstream: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
  });
  const { gatewayUrl } = await server.listen();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const headers = { "idempotency-key": "order-secret", traceparent };
  expect((await fetch(`${gatewayUrl}/orders`, { method: "POST", headers })).status).toBe(201);
  await server.close();
  service.close();

  const request = spans().find(({ kind }) => kind === SpanKind.SERVER);
  // By its rule: a path may hold the name of a customer.
  const guarded = spans().find(({ name }) => name === "nevertwice POST /*");
  expect([heard, request?.name, request?.attributes["http.response.status_code"]]).toEqual([
    traceparent,
    "POST",
    201,
  ]);
  expect(request?.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
  expect(guarded?.parentSpanContext?.spanId).toBe(request?.spanContext().spanId);
});

test("an SDK with metrics only is enough, and gets what /metrics shows", async () => {
  const sdk = createMetricsSdk();
  metrics.setGlobalMeterProvider(sdk.meterProvider);
  const { server, claim } = await started();
  await claim("order-1");
  await claim("order-1");
  const { body } = await server.app.inject({ url: "/metrics", headers: { host: "localhost" } });
  await server.close();
  expect(await sdk.counts("nevertwice.claims")).toEqual({
    "answer=new, namespace=default, operation=charge": 1,
    "answer=pending, namespace=default, operation=charge": 1,
  });
  const own = 'nevertwice_namespace="default",nevertwice_operation="charge"';
  for (const answer of ["new", "pending"])
    expect(body.split("\n")).toContain(`nevertwice_claims_total{${own},nevertwice_answer="${answer}"} 1`);
});

test("without an SDK the metrics are counted all the same", () => {
  const counted = createMetrics();
  const event = { kind: "claimed", operation: "charge", keyHash: "k", fence: 1, number: 1 } as const;
  counted.observer("shop")(event);
  expect(counted.text("shop", [])).toContain('nevertwice_answer="new"} 1');
});
