/** The metrics of the server in the text format of Prometheus, by namespace. */
import type { GuardEvent } from "nevertwice";
import type { OutboxFigures } from "nevertwice/outbox";

export interface Metrics {
  /** An observer for the guards and claims of a namespace. */
  observer(namespace: string): (event: GuardEvent) => void;
  request(request: AnsweredRequest): void;
  /** The namespaces with their own figures, and this one. */
  namespaces(own: string): readonly string[];
  /** The text of `/metrics`: of one namespace, or of the whole server with the gauges of its process. */
  text(view: MetricsView): string;
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

export interface MetricsView {
  /** Undefined for the whole server. */
  readonly namespace: string | undefined;
  inFlight(namespace?: string): number;
  /** The figures of the outbox, by namespace. */
  readonly outbox: ReadonlyMap<string, OutboxFigures>;
  /** Gauges of the process, shown only for the whole server. */
  readonly process: Readonly<Record<string, number>>;
}

export interface MetricsOptions {
  /**
   * Converts an operation to its label; default: the operation itself. An operation can be a concrete path, and each
   * label is its own time series, so convert `POST /payments/17` to `POST /payments/{id}`.
   */
  readonly label?: (operation: string) => string;
}

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** The most operations of one namespace. Callers choose the names, so further ones are counted as `other`. */
const MAX_OPERATIONS = 100;
/** The most operations whose labels are remembered: an operation can be a concrete path. */
const MAX_LABELS = 1_000;
const METHODS = ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"];
/** The most namespaces. Further ones are counted with requests without a caller, under the empty label. */
const MAX_NAMESPACES = 50;
const NO_NAMESPACE = "";

/** The counters of one namespace. */
interface NamespaceFigures {
  readonly namespace: string;
  readonly operations: Set<string>;
  readonly events: Map<string, number>;
  readonly requests: Map<string, number>;
  readonly durations: Histogram;
  readonly work: Histogram;
}

export function createMetrics({ label = (operation) => operation }: MetricsOptions = {}): Metrics {
  const all = new Map<string, NamespaceFigures>([[NO_NAMESPACE, createNamespaceFigures(NO_NAMESPACE)]]);

  function findFigures(namespace: string): NamespaceFigures {
    const known = all.get(namespace);
    if (known !== undefined) return known;
    if (all.size > MAX_NAMESPACES) return all.get(NO_NAMESPACE) as NamespaceFigures;
    const made = createNamespaceFigures(namespace);
    all.set(namespace, made);
    return made;
  }

  return {
    observer(namespace) {
      const { operations, events, work } = findFigures(namespace);
      /** By operation. An operation keeps its label, since no label is ever removed. */
      const labels = new Map<string, string>();
      const createLabel = (operation: string): string => {
        const name = label(operation);
        if (operations.size < MAX_OPERATIONS) operations.add(name);
        const made = `operation="${escaped(operations.has(name) ? name : "other")}"`;
        if (labels.size >= MAX_LABELS) labels.clear();
        labels.set(operation, made);
        return made;
      };
      return (event) => {
        if (!("operation" in event)) return;
        const { operation } = event;
        count(events, `kind="${event.kind}",${labels.get(operation) ?? createLabel(operation)}`);
        if (event.kind === "completed") work.add(event.ranMs / 1_000);
      };
    },
    request({ namespace = NO_NAMESPACE, route, method, status, seconds }) {
      const { requests, durations } = findFigures(namespace);
      const known = METHODS.includes(method) ? method : "other";
      count(requests, `route="${escaped(route)}",method="${known}",status="${status}"`);
      durations.add(seconds);
    },
    namespaces: (own) => [...new Set([own, ...all.keys()])].filter((namespace) => namespace !== NO_NAMESPACE),
    text({ namespace, inFlight, outbox, process }) {
      const shown = [...all.values()].filter((own) => namespace === undefined || own.namespace === namespace);
      const gauges = Object.entries(namespace === undefined ? process : {});
      return [
        ...figures(shown, inFlight),
        ...outboxLines(outbox),
        ...gauges.flatMap(([name, value]) => gauge(name, value)),
        "",
      ].join("\n");
    },
  };
}

function createNamespaceFigures(namespace: string): NamespaceFigures {
  return {
    namespace,
    operations: new Set(),
    events: new Map(),
    requests: new Map(),
    durations: createHistogram(),
    work: createHistogram(),
  };
}

function figures(shown: readonly NamespaceFigures[], inFlight: MetricsView["inFlight"]): readonly string[] {
  const lines = (
    name: string,
    type: string,
    help: string,
    of: (own: NamespaceFigures, label: string) => string[],
  ) => [
    `# HELP nevertwice_${name} ${help}`,
    `# TYPE nevertwice_${name} ${type}`,
    ...shown.flatMap((own) =>
      of(own, `namespace="${escaped(own.namespace)}"`).map((line) => `nevertwice_${name}${line}`),
    ),
  ];
  const counted = (values: ReadonlyMap<string, number>, label: string) =>
    [...values].map(([labels, value]) => `{${label},${labels}} ${value}`);
  const running = shown.filter(({ namespace }) => namespace !== NO_NAMESPACE);
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
    ...lines("in_flight", "gauge", "Guarded work that is in flight on this server.", (own, label) =>
      running.includes(own) ? [`{${label}} ${inFlight(own.namespace)}`] : [],
    ),
  ];
}

/** The states of messages that are gauges of their own. */
export const OUTBOX_STATES = ["waiting", "delivering", "behind", "parked"] as const;

function outboxLines(outbox: MetricsView["outbox"]): readonly string[] {
  if (outbox.size === 0) return [];
  const [messages, oldest] = ["nevertwice_outbox_messages", "nevertwice_outbox_oldest_seconds"];
  const own = [...outbox].map(([namespace, shown]) => ({
    label: `namespace="${escaped(namespace)}"`,
    shown,
  }));
  return [
    `# HELP ${messages} Messages that are not delivered yet, by state. Each number is counted up to 10000.`,
    `# TYPE ${messages} gauge`,
    ...own.flatMap(({ label, shown }) =>
      OUTBOX_STATES.map((state) => `${messages}{${label},state="${state}"} ${shown[state]}`),
    ),
    `# HELP ${oldest} Age of the oldest message that is neither parked nor behind another one; 0 if there is none.`,
    `# TYPE ${oldest} gauge`,
    ...own.map(({ label, shown }) => `${oldest}{${label}} ${(shown.oldestMs ?? 0) / 1_000}`),
  ];
}

function gauge(name: string, value: number): readonly string[] {
  return [`# TYPE nevertwice_${name} gauge`, `nevertwice_${name} ${value}`];
}

interface Histogram {
  add(seconds: number): void;
  /** The lines of the metric, without its name at the start. */
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
