/** The server's figures as Prometheus reads them, by namespace. */
import type { GuardEvent } from "nevertwice";

export interface Metrics {
  /** An observer for the guards and claims of a namespace. */
  observer(namespace: string): (event: GuardEvent) => void;
  request(request: AnsweredRequest): void;
  /** The text of `/metrics`: of one namespace, or of the whole server with what is measured of its process. */
  text(view: MetricsView): string;
}

export interface AnsweredRequest {
  /** Of the caller; undefined if nobody had to say who calls. */
  readonly namespace: string | undefined;
  /** The pattern of the route, never the address. */
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly seconds: number;
}

export interface MetricsView {
  /** Undefined for the whole server. */
  readonly namespace: string | undefined;
  inFlight(namespace?: string): number;
  /** Gauges of the process, for the whole server alone. */
  readonly process: Readonly<Record<string, number>>;
}

export interface MetricsOptions {
  /**
   * What an operation is called in a label; default: as it is. An operation may be a concrete path, and every label is
   * a time series: make `POST /payments/{id}` of `POST /payments/17`.
   */
  readonly label?: (operation: string) => string;
}

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** In one namespace. Names come from callers, so that all further ones are counted as `other`. */
const MOST_OPERATIONS = 100;
const METHODS = ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"];
/** All further ones are counted together with requests of nobody, under the empty label that no namespace has. */
const MOST_NAMESPACES = 50;
const NOBODY = "";

/** What is counted of one namespace. */
interface Book {
  readonly namespace: string;
  readonly operations: Set<string>;
  readonly events: Map<string, number>;
  readonly requests: Map<string, number>;
  readonly durations: Histogram;
  readonly work: Histogram;
}

export function createMetrics({ label = (operation) => operation }: MetricsOptions = {}): Metrics {
  const books = new Map<string, Book>([[NOBODY, bookOf(NOBODY)]]);

  function bookFor(namespace: string): Book {
    const known = books.get(namespace);
    if (known !== undefined) return known;
    if (books.size > MOST_NAMESPACES) return books.get(NOBODY) as Book;
    const made = bookOf(namespace);
    books.set(namespace, made);
    return made;
  }

  return {
    observer(namespace) {
      const { operations, events, work } = bookFor(namespace);
      return (event) => {
        if (!("operation" in event)) return;
        const name = label(event.operation);
        if (operations.size < MOST_OPERATIONS) operations.add(name);
        const operation = operations.has(name) ? name : "other";
        count(events, `kind="${event.kind}",operation="${escaped(operation)}"`);
        if (event.kind === "completed") work.add(event.ranMs / 1_000);
      };
    },
    request({ namespace = NOBODY, route, method, status, seconds }) {
      const { requests, durations } = bookFor(namespace);
      const known = METHODS.includes(method) ? method : "other";
      count(requests, `route="${escaped(route)}",method="${known}",status="${status}"`);
      durations.add(seconds);
    },
    text({ namespace, inFlight, process }) {
      const shown = [...books.values()].filter(
        (book) => namespace === undefined || book.namespace === namespace,
      );
      const gauges = Object.entries(namespace === undefined ? process : {});
      return [...figures(shown, inFlight), ...gauges.flatMap(([name, value]) => gauge(name, value)), ""].join(
        "\n",
      );
    },
  };
}

function bookOf(namespace: string): Book {
  return {
    namespace,
    operations: new Set(),
    events: new Map(),
    requests: new Map(),
    durations: createHistogram(),
    work: createHistogram(),
  };
}

function figures(books: readonly Book[], inFlight: MetricsView["inFlight"]): readonly string[] {
  const lines = (name: string, type: string, help: string, of: (book: Book, label: string) => string[]) => [
    `# HELP nevertwice_${name} ${help}`,
    `# TYPE nevertwice_${name} ${type}`,
    ...books.flatMap((book) =>
      of(book, `namespace="${escaped(book.namespace)}"`).map((line) => `nevertwice_${name}${line}`),
    ),
  ];
  const counted = (values: ReadonlyMap<string, number>, label: string) =>
    [...values].map(([labels, value]) => `{${label},${labels}} ${value}`);
  const running = books.filter(({ namespace }) => namespace !== NOBODY);
  return [
    ...lines(
      "events_total",
      "counter",
      "Events of guards and claims, by kind and operation.",
      ({ events }, label) => counted(events, label),
    ),
    ...lines(
      "http_requests_total",
      "counter",
      "Requests to the HTTP API and the pages.",
      ({ requests }, label) => counted(requests, label),
    ),
    ...lines(
      "http_request_duration_seconds",
      "histogram",
      "Time until a request was answered.",
      ({ durations }, label) => durations.lines(label),
    ),
    ...lines("work_duration_seconds", "histogram", "Run time of guarded work.", ({ work }, label) =>
      work.lines(label),
    ),
    ...lines("in_flight", "gauge", "Guarded work that runs behind this server now.", (book, label) =>
      running.includes(book) ? [`{${label}} ${inFlight(book.namespace)}`] : [],
    ),
  ];
}

function gauge(name: string, value: number): readonly string[] {
  return [`# TYPE nevertwice_${name} gauge`, `nevertwice_${name} ${value}`];
}

interface Histogram {
  add(seconds: number): void;
  /** What follows the metric's name in each of its lines. */
  lines(label: string): string[];
}

function createHistogram(): Histogram {
  const counts: number[] = BUCKETS.map(() => 0);
  let all = 0;
  let sum = 0;
  return {
    add(seconds) {
      all++;
      sum += seconds;
      const index = BUCKETS.findIndex((bucket) => seconds <= bucket);
      if (index !== -1) counts[index] = (counts[index] ?? 0) + 1;
    },
    lines(label) {
      let total = 0;
      const buckets = BUCKETS.map((bucket, index) => {
        total += counts[index] ?? 0;
        return `_bucket{${label},le="${bucket}"} ${total}`;
      });
      return [
        ...buckets,
        `_bucket{${label},le="+Inf"} ${all}`,
        `_sum{${label}} ${sum}`,
        `_count{${label}} ${all}`,
      ];
    },
  };
}

function count(values: Map<string, number>, labels: string): void {
  values.set(labels, (values.get(labels) ?? 0) + 1);
}

function escaped(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
