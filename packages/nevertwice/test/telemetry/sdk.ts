/** OpenTelemetry's own SDK, writing to memory: what a user's exporter would receive. */
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";

export interface MetricsSdk {
  readonly meterProvider: MeterProvider;
  metric(name: string): Promise<MetricData | undefined>;
  all(): Promise<readonly MetricData[]>;
  /** The value of each time series, by its attributes without their `nevertwice.`: "answer=new, operation=charge". */
  counts(name: string): Promise<Record<string, number>>;
  /** The same for a histogram: the count, and the sum rounded to the microsecond. */
  durations(name: string): Promise<Record<string, { readonly count: number; readonly sum: number }>>;
}

export function createMetricsSdk(): MetricsSdk {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2_000_000_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });

  async function all(): Promise<readonly MetricData[]> {
    exporter.reset();
    await reader.forceFlush();
    return exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  }

  const metric = async (name: string) => (await all()).find(({ descriptor }) => descriptor.name === name);

  return {
    meterProvider,
    all,
    metric,
    async counts(name) {
      const found = await metric(name);
      if (found?.dataPointType !== DataPointType.SUM) return {};
      return Object.fromEntries(
        found.dataPoints.map(({ attributes, value }) => [labelOf(attributes), value]),
      );
    },
    async durations(name) {
      const found = await metric(name);
      if (found?.dataPointType !== DataPointType.HISTOGRAM) return {};
      return Object.fromEntries(
        found.dataPoints.map(({ attributes, value: { count, sum = 0 } }) => [
          labelOf(attributes),
          { count, sum: Math.round(sum * 1e6) / 1e6 },
        ]),
      );
    },
  };
}

function labelOf(attributes: object): string {
  const pairs = Object.entries(attributes).map(([name, value]) => `${name}=${value}`);
  return pairs
    .map((pair) => pair.replace(/^nevertwice\./, ""))
    .sort()
    .join(", ");
}

export interface TracesSdk {
  readonly tracerProvider: BasicTracerProvider;
  /** Spans that have ended, in the order in which they ended. */
  spans(): readonly ReadableSpan[];
}

export function createTracesSdk(): TracesSdk {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return { tracerProvider, spans: () => exporter.getFinishedSpans() };
}

/** Registers a context manager as an SDK does when it starts; the returned function removes it. */
export function registerContextManager(): () => void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  return () => context.disable();
}
