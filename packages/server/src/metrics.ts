/** The server's figures as Prometheus reads them. */
import type { GuardEvent } from "nevertwice";

export interface Metrics {
  readonly observe: (event: GuardEvent) => void;
  request(route: string, method: string, status: number, seconds: number): void;
  /** The text of `/metrics`. */
  text(gauges: Readonly<Record<string, number>>): string;
}

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** More label values than these are counted as `other`: names come from callers. */
const MOST_OPERATIONS = 200;

export function createMetrics(): Metrics {
  const events = new Map<string, number>();
  const requests = new Map<string, number>();
  const operations = new Set<string>();
  const durations = new Histogram();
  const work = new Histogram();

  return {
    observe(event) {
      if (!("operation" in event)) return;
      if (operations.size < MOST_OPERATIONS) operations.add(event.operation);
      const operation = operations.has(event.operation) ? event.operation : "other";
      count(events, `kind="${event.kind}",operation="${escaped(operation)}"`);
      if (event.kind === "completed") work.add(event.ranMs / 1_000);
    },
    request(route, method, status, seconds) {
      count(requests, `route="${escaped(route)}",method="${method}",status="${status}"`);
      durations.add(seconds);
    },
    text(gauges) {
      return [
        ...counters("nevertwice_events_total", "What guards and claims told, by kind and operation.", events),
        ...counters("nevertwice_http_requests_total", "Requests to the HTTP API and the pages.", requests),
        ...durations.lines("nevertwice_http_request_duration_seconds", "How long requests took."),
        ...work.lines("nevertwice_work_duration_seconds", "How long guarded work took."),
        ...Object.entries(gauges).flatMap(([name, value]) => [
          `# TYPE nevertwice_${name} gauge`,
          `nevertwice_${name} ${value}`,
        ]),
        "",
      ].join("\n");
    },
  };
}

class Histogram {
  readonly #counts: number[] = BUCKETS.map(() => 0);
  #count = 0;
  #sum = 0;

  add(seconds: number): void {
    this.#count++;
    this.#sum += seconds;
    const index = BUCKETS.findIndex((bucket) => seconds <= bucket);
    if (index !== -1) this.#counts[index] = (this.#counts[index] ?? 0) + 1;
  }

  lines(name: string, help: string): string[] {
    let total = 0;
    const buckets = BUCKETS.map((bucket, index) => {
      total += this.#counts[index] ?? 0;
      return `${name}_bucket{le="${bucket}"} ${total}`;
    });
    return [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} histogram`,
      ...buckets,
      `${name}_bucket{le="+Inf"} ${this.#count}`,
      `${name}_sum ${this.#sum}`,
      `${name}_count ${this.#count}`,
    ];
  }
}

function counters(name: string, help: string, values: ReadonlyMap<string, number>): string[] {
  const lines = [...values].map(([labels, value]) => `${name}{${labels}} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} counter`, ...lines];
}

function count(values: Map<string, number>, labels: string): void {
  values.set(labels, (values.get(labels) ?? 0) + 1);
}

function escaped(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
