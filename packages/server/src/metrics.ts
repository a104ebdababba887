/**
 * The metrics of the server. Each value goes to `/metrics` and, if an OpenTelemetry SDK was registered before the server started, to
 * that as well, so both have the same names. docs/metrics.md lists them.
 */
import { type Attributes, type Counter, createNoopMeter, type Histogram, metrics } from "@opentelemetry/api";
import type { Observer } from "nevertwice";
import { type CounterMeter, telemetry } from "nevertwice/opentelemetry";
import { createPrometheusMeter, type Gauge, NAMESPACE } from "./prometheus.ts";

export interface Metrics {
  /** An observer for the guards and claims of a namespace, which also makes spans. */
  observer(namespace: string): Observer;
  request(request: AnsweredRequest): void;
  /** The namespaces with their own figures, and this one. */
  namespaces(own: string): readonly string[];
  /** The text of `/metrics`: of one namespace, or of the whole server (undefined). */
  text(namespace: string | undefined, gauges: readonly Gauge[]): string;
}

export interface AnsweredRequest {
  /** The namespace of the caller; undefined if the route needs no caller. */
  readonly namespace: string | undefined;
  /** The pattern of the route, never the address. */
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly seconds: number;
}

export interface MetricsOptions {
  /**
   * Converts an operation to its label; default: the operation itself. An operation can be a concrete path, and each
   * label is its own time series, so convert `POST /payments/17` to `POST /payments/{id}`.
   */
  readonly label?: (operation: string) => string;
}

/** The name of the meter: that of the library, so that no metric depends on who counted. */
const SCOPE = "nevertwice";
const METHODS = ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"];
/** The most namespaces. Further ones are counted with requests without a caller, under the empty label. */
const MAX_NAMESPACES = 50;
const NO_NAMESPACE = "";

export function createMetrics({ label = (operation) => operation }: MetricsOptions = {}): Metrics {
  const prometheus = createPrometheusMeter();
  const meter = bothMeters(prometheus, metrics.getMeter(SCOPE));
  const requests = meter.createCounter("nevertwice.http.requests", {
    unit: "{request}",
    description: "Requests to the HTTP API and the pages.",
  });
  const durations = meter.createHistogram("nevertwice.http.request.duration", {
    unit: "s",
    description: "Time until a request was answered.",
  });
  const observers = new Map<string, Observer>();

  /** The label of a namespace. Callers cannot add labels without a limit. */
  function known(namespace: string): string {
    if (!observers.has(namespace) && observers.size > MAX_NAMESPACES) return NO_NAMESPACE;
    if (!observers.has(namespace))
      observers.set(namespace, telemetry({ meter, namespace, operation: label }));
    return namespace;
  }
  known(NO_NAMESPACE);

  return {
    observer: (namespace) => observers.get(known(namespace)) as Observer,
    request({ namespace = NO_NAMESPACE, route, method, status, seconds }) {
      const own = { [NAMESPACE]: known(namespace) };
      requests.add(1, {
        ...own,
        "http.route": route,
        "http.request.method": METHODS.includes(method) ? method : "_OTHER",
        "http.response.status_code": status,
      });
      durations.record(seconds, own);
    },
    namespaces: (own) => [...new Set([own, ...observers.keys()])].filter((name) => name !== NO_NAMESPACE),
    text: (namespace, gauges) => prometheus.text(namespace, gauges),
  };
}

/** Without an SDK the second meter does nothing, and only the first is used. */
function bothMeters(first: CounterMeter, second: CounterMeter): CounterMeter {
  if (second === createNoopMeter()) return first;
  const both = [first, second];
  return {
    createCounter(name, options) {
      const counters = both.map((meter) => meter.createCounter(name, options));
      const add = (value: number, attributes?: Attributes) => {
        for (const counter of counters) counter.add(value, attributes);
      };
      return { add } as Counter;
    },
    createHistogram(name, options) {
      const histograms = both.map((meter) => meter.createHistogram(name, options));
      const record = (value: number, attributes?: Attributes) => {
        for (const histogram of histograms) histogram.record(value, attributes);
      };
      return { record } as Histogram;
    },
  };
}
