/** The gauges of the server: values at the time of a collection, for `/metrics` and for OpenTelemetry alike. */
import {
  type BatchObservableCallback,
  createNoopMeter,
  metrics,
  type ObservableGauge,
} from "@opentelemetry/api";
import type { OverdueReport, UndecidedReport } from "nevertwice";
import type { OutboxFigures } from "nevertwice/outbox";
import type { Context } from "./context.ts";
import { createLatelyRead } from "./lately-read.ts";
import { type Gauge, NAMESPACE } from "./prometheus.ts";
import { isReservedNamespace } from "./server-guard.ts";

export interface Gauges {
  /**
   * The gauges of one namespace, or of the whole server with those of its process. Never rejects: a value that the store
   * does not give in time is left out.
   */
  read(namespace: string | undefined): Promise<readonly Gauge[]>;
}

/** Name, unit and description. */
const GAUGES = {
  "nevertwice.in_flight": ["{run}", "Guarded work that is in flight on this server."],
  "nevertwice.undecided": [
    "{record}",
    "Held records that wait for a decision, counted up to 10000; a lower bound unless nevertwice.undecided.complete is 1.",
  ],
  "nevertwice.undecided.oldest_age": [
    "s",
    "How long the oldest held record has waited for a decision; 0 if there is none.",
  ],
  "nevertwice.undecided.complete": ["1", "1 if nevertwice.undecided is exact, 0 if it is a lower bound."],
  "nevertwice.overdue": [
    "{record}",
    "Expired records that no purge has removed yet, counted up to 10000; of the whole store.",
  ],
  "nevertwice.overdue.oldest_age": [
    "s",
    "For how long the oldest of them could have been removed; 0 if there is none.",
  ],
  "nevertwice.outbox.messages": [
    "{message}",
    "Messages that are not delivered yet, by state. Each number is counted up to 10000.",
  ],
  "nevertwice.outbox.oldest_age": [
    "s",
    "Age of the oldest message that is neither parked nor behind another one; 0 if there is none.",
  ],
  "nevertwice.heap": ["By", "Memory that objects of the process use."],
  "nevertwice.resident": ["By", "Memory of the process."],
} as const;
type GaugeName = keyof typeof GAUGES;
type Readings = Readonly<Record<GaugeName, Gauge["readings"]>>;

/** The states of messages that are gauges of their own. */
const OUTBOX_STATES = ["waiting", "delivering", "behind", "parked"] as const;

/** `namespaces` returns those of the whole server. */
export function createGauges(
  context: Pick<Context, "guard" | "live" | "outbox" | "store">,
  namespaces: () => readonly string[],
): Gauges {
  const { store } = context;
  const undecided = createLatelyRead((namespace) => context.guard(namespace).undecided());
  /** A namespace may have records that wait for a decision before any caller of it has called this server. */
  const stored = createLatelyRead(async () => store.namespaces?.({ limit: MAX_STORED }));
  const overdue = createLatelyRead(async () => store.overdue?.({ limit: MAX_OVERDUE }));
  const outbox = createLatelyRead((namespace) => context.outbox(namespace)?.figures());

  async function all(): Promise<readonly string[]> {
    const found = (await stored.read([EVERY])).get(EVERY)?.namespaces ?? [];
    return [...new Set([...namespaces(), ...found.filter((name) => !isReservedNamespace(name))])];
  }

  return {
    async read(namespace) {
      const shown = namespace === undefined ? await all() : [namespace];
      const [messages, waiting, expired] = await Promise.all([
        outbox.read(shown),
        undecided.read(shown),
        overdue.read(namespace === undefined ? [EVERY] : []),
      ]);
      return toGauges({
        "nevertwice.in_flight": shown.map((name) => [context.live.inFlight(name), { [NAMESPACE]: name }]),
        ...undecidedReadings([...waiting]),
        ...overdueReadings([...expired.values()]),
        ...outboxReadings([...messages]),
        ...(namespace === undefined ? processReadings() : NO_PROCESS),
      });
    },
  };
}

/** Beyond this, nobody needs to know how many more there are. */
const MAX_OVERDUE = 10_000;
/** The namespaces that are looked up in the store. */
const MAX_STORED = 50;
const EVERY = "";

function undecidedReadings(known: readonly (readonly [namespace: string, report: UndecidedReport])[]) {
  const readings = (toValue: (report: UndecidedReport) => number) =>
    known.map(([name, report]) => [toValue(report), { [NAMESPACE]: name }] as const);
  return {
    "nevertwice.undecided": readings(({ count }) => count),
    "nevertwice.undecided.oldest_age": readings(({ oldestLapsedAt }) => secondsSince(oldestLapsedAt)),
    "nevertwice.undecided.complete": readings(({ isComplete }) => (isComplete ? 1 : 0)),
  };
}

function overdueReadings(reports: readonly OverdueReport[]) {
  return {
    "nevertwice.overdue": reports.map(({ count }) => [count, {}] as const),
    "nevertwice.overdue.oldest_age": reports.map(
      ({ oldestSince }) => [secondsSince(oldestSince), {}] as const,
    ),
  };
}

/** `time` is of the store's clock, which may be ahead. */
function secondsSince(time: number | undefined): number {
  return time === undefined ? 0 : Math.max(0, (Date.now() - time) / 1_000);
}

function outboxReadings(known: readonly (readonly [namespace: string, figures: OutboxFigures])[]) {
  return {
    "nevertwice.outbox.messages": known.flatMap(([name, figures]) =>
      OUTBOX_STATES.map(
        (state) => [figures[state], { [NAMESPACE]: name, "nevertwice.state": state }] as const,
      ),
    ),
    "nevertwice.outbox.oldest_age": known.map(
      ([name, { oldestMs = 0 }]) => [oldestMs / 1_000, { [NAMESPACE]: name }] as const,
    ),
  };
}

function toGauges(readings: Readings): readonly Gauge[] {
  return Object.entries(GAUGES).map(([name, [unit, description]]) => ({
    name,
    unit,
    description,
    readings: readings[name as GaugeName],
  }));
}

const NO_PROCESS = { "nevertwice.heap": [], "nevertwice.resident": [] };

function processReadings() {
  const { heapUsed, rss } = process.memoryUsage();
  return { "nevertwice.heap": [[heapUsed, {}]], "nevertwice.resident": [[rss, {}]] } as const;
}

/** Lets an OpenTelemetry SDK read the gauges whenever it collects metrics. Returns how to stop. */
export function observeGauges(gauges: Gauges): () => void {
  const meter = metrics.getMeter("nevertwice");
  if (meter === createNoopMeter()) return () => {};
  const made = new Map<string, ObservableGauge>();
  for (const [name, [unit, description]] of Object.entries(GAUGES))
    made.set(name, meter.createObservableGauge(name, { unit, description }));
  const observe: BatchObservableCallback = async (result) => {
    for (const { name, readings } of await gauges.read(undefined)) {
      const instrument = made.get(name);
      if (instrument === undefined) continue;
      for (const [value, attributes] of readings) result.observe(instrument, value, attributes);
    }
  };
  meter.addBatchObservableCallback(observe, [...made.values()]);
  return () => meter.removeBatchObservableCallback(observe, [...made.values()]);
}
