/**
 * A meter of OpenTelemetry that keeps its values in memory and writes them in the text format of Prometheus. Names and labels are
 * those that OpenTelemetry's own exporter for Prometheus would write, so that a dashboard works with either.
 */
import type { Attributes, Counter, Histogram, MetricOptions } from "@opentelemetry/api";
import type { CounterMeter } from "nevertwice/opentelemetry";

export interface PrometheusMeter extends CounterMeter {
  /** The series of one namespace, or of the whole server, and these gauges. */
  text(namespace: string | undefined, gauges: readonly Gauge[]): string;
}

/** A value at the time of a collection. */
export interface Gauge {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly readings: readonly (readonly [value: number, attributes: Attributes])[];
}

export const NAMESPACE = "nevertwice.namespace";

/** The most series of an instrument in one namespace. Further ones are one series with this label, as in OpenTelemetry's SDK. */
const MAX_COUNTERS = 1_000;
const MAX_HISTOGRAMS = 250;
const OVERFLOW = { "otel.metric.overflow": true };

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

interface MetricHead {
  readonly name: string;
  readonly description: string;
  readonly type: "counter" | "histogram" | "gauge";
}

interface Instrument extends MetricHead {
  record(value: number, attributes: Attributes): void;
  /** The lines of each series without the name of the metric: of one namespace, or of all. */
  lines(namespace: string | undefined): readonly string[];
}

export function createPrometheusMeter(): PrometheusMeter {
  const instruments = new Map<string, Instrument>();

  /** Each namespace has its own observer, which asks for the same instruments again. */
  function find(name: string, create: () => Instrument): Instrument["record"] {
    const found = instruments.get(name) ?? create();
    instruments.set(name, found);
    return found.record;
  }

  return {
    createCounter: (name, options = {}) =>
      ({ add: withDefault(find(name, () => createCounter(toMetric(name, options, "counter")))) }) as Counter,
    createHistogram(name, options = {}) {
      const bounds = options.advice?.explicitBucketBoundaries ?? BUCKETS;
      const metric = toMetric(name, options, "histogram");
      return { record: withDefault(find(name, () => createHistogram(metric, bounds))) } as Histogram;
    },
    text(namespace, gauges) {
      const counted = [...instruments.values()].map((metric) => block(metric, metric.lines(namespace)));
      const measured = gauges.map(({ name, unit, description, readings }) =>
        block(
          toMetric(name, { unit, description }, "gauge"),
          readings.map(([value, attributes]) => `${labelled(labelsFrom(attributes))} ${value}`),
        ),
      );
      return [...counted, ...measured, [""]].flat().join("\n");
    },
  };
}

function withDefault(record: Instrument["record"]) {
  return (value: number, attributes: Attributes = {}) => record(value, attributes);
}

function createCounter(metric: MetricHead): Instrument {
  const series = createSeries(MAX_COUNTERS, () => ({ value: 0 }));
  return {
    ...metric,
    record(value, attributes) {
      series.find(attributes).value += value;
    },
    lines: (namespace) =>
      series.shown(namespace).map(([labels, { value }]) => `${labelled(labels)} ${value}`),
  };
}

function createHistogram(metric: MetricHead, bounds: readonly number[]): Instrument {
  const series = createSeries(MAX_HISTOGRAMS, () => createDistribution(bounds));
  return {
    ...metric,
    record: (value, attributes) => series.find(attributes).add(value),
    lines: (namespace) =>
      series.shown(namespace).flatMap(([labels, distribution]) => distribution.lines(labels)),
  };
}

function block({ name, description, type }: MetricHead, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return [];
  return [`# HELP ${name} ${description}`, `# TYPE ${name} ${type}`, ...lines.map((line) => name + line)];
}

const UNITS: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" };

function toMetric(
  name: string,
  { unit = "", description = "" }: MetricOptions,
  type: MetricHead["type"],
): MetricHead {
  const end = `${UNITS[unit] ?? ""}${type === "counter" ? "_total" : ""}`;
  return { name: name.replaceAll(".", "_") + end, description, type };
}

function labelled(labels: string): string {
  return labels === "" ? "" : `{${labels}}`;
}

function labelsFrom(attributes: Attributes): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return given.map(([name, value]) => `${name.replaceAll(".", "_")}="${escaped(String(value))}"`).join(",");
}

function escaped(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}

interface SeriesByNamespace<T> {
  find(attributes: Attributes): T;
  /** With their labels. A series without a namespace belongs to the whole server. */
  shown(namespace: string | undefined): readonly (readonly [labels: string, value: T])[];
}

function createSeries<T>(max: number, create: () => T): SeriesByNamespace<T> {
  const all = new Map<unknown, Map<string, T>>();

  return {
    find(attributes) {
      const { [NAMESPACE]: namespace } = attributes;
      const own = all.get(namespace) ?? new Map<string, T>();
      all.set(namespace, own);
      const known = labelsFrom(attributes);
      const isFull = own.size >= max && !own.has(known);
      const labels = isFull ? labelsFrom({ [NAMESPACE]: namespace, ...OVERFLOW }) : known;
      const found = own.get(labels) ?? create();
      own.set(labels, found);
      return found;
    },
    shown: (namespace) =>
      [...all].flatMap(([own, series]) => (namespace === undefined || own === namespace ? [...series] : [])),
  };
}

interface Distribution {
  add(value: number): void;
  lines(labels: string): readonly string[];
}

function createDistribution(bounds: readonly number[]): Distribution {
  const counts: number[] = bounds.map(() => 0);
  let all = 0;
  let sum = 0;
  return {
    add(value) {
      all++;
      sum += value;
      const index = bounds.findIndex((bound) => value <= bound);
      if (index !== -1) counts[index] = (counts[index] ?? 0) + 1;
    },
    lines(labels) {
      const before = labels === "" ? "" : `${labels},`;
      let total = 0;
      const buckets = bounds.map((bound, index) => {
        total += counts[index] ?? 0;
        return `_bucket{${before}le="${bound}"} ${total}`;
      });
      return [
        ...buckets,
        `_bucket{${before}le="+Inf"} ${all}`,
        `_sum${labelled(labels)} ${sum}`,
        `_count${labelled(labels)} ${all}`,
      ];
    },
  };
}
