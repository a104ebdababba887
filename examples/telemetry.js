/** Metrics and traces of a guard, collected by OpenTelemetry's own SDK. An application exports them; this one prints them. */
import assert from "node:assert/strict";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { createGuard } from "nevertwice";
import { telemetry } from "nevertwice/opentelemetry";
import { memoryStore } from "nevertwice/stores/memory";

const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const meterProvider = new MeterProvider({
  readers: [new PeriodicExportingMetricReader({ exporter: measured })],
});
const traced = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(traced)] });

const guard = createGuard({
  store: memoryStore(),
  observer: telemetry({ meterProvider, tracerProvider }),
});

/** @param {number} amount */
const charge = (amount) =>
  guard.tryRun({ operation: "charge", key: "order-1", fingerprint: { amount } }, () => ({
    receipt: "receipt-1",
  }));
await charge(4_200);
await charge(4_200); // A retry.
await charge(9_900); // Somebody uses the key for something else.
await guard.close();

// Each call has a span, and a retry's is linked to that of the call that did the work, wherever that was.
const spans = traced.getFinishedSpans();
for (const { name, attributes, links } of spans) {
  const original = spans.findIndex((span) => span.spanContext().spanId === links[0]?.context.spanId);
  const linked = original === -1 ? "" : `, linked to span ${original + 1}`;
  console.log(`span: ${name}, ${attributes["nevertwice.status"]}${linked}`);
}
assert.equal(spans[1]?.links[0]?.context.traceId, spans[0]?.spanContext().traceId);

await meterProvider.forceFlush();
const metrics = measured
  .getMetrics()
  .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
const claims = metrics.find(({ descriptor }) => descriptor.name === "nevertwice.claims");
for (const { attributes, value } of claims?.dataPoints ?? [])
  console.log(`nevertwice.claims: ${value} ${attributes["nevertwice.answer"]}`);
await meterProvider.shutdown();
