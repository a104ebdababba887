/**
 * Guards on one memory store, behind faults that a test can plan, with a clock that moves only when a test moves it.
 * The tests of guards, consumers and reservations share it.
 */
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { expect, onTestFinished } from "vitest";
import type { GuardOptions } from "../../src/core/engine.ts";
import type { ErrorCode } from "../../src/core/errors.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { deferred } from "../deferred.ts";

/** Policies with which a guard refuses a duplicate at once with an error. */
export const REFUSE = { onCompleted: "reject", onPending: "reject" } as const;

export const MINUTE_MS = 60_000;

export interface Scene {
  readonly clock: ManualClock;
  /** The store as the first guard reaches it; faults planned here affect only that guard. */
  readonly store: FaultyStore;
  readonly guard: Guard;
  readonly events: GuardEvent[];
  /** Another guard on the same records, as another process would have it. */
  another(options?: Partial<GuardOptions>): Guard;
}

export function createScene(options: Partial<GuardOptions> = {}): Scene {
  const clock = manualClock();
  const inner = memoryStore({ clock });
  const events: GuardEvent[] = [];

  function guardOn(store: FaultyStore, more: Partial<GuardOptions> = {}): Guard {
    const observer = (event: GuardEvent) => events.push(event);
    const guard = createGuard({ store, purgeEveryMs: 0, drainMs: 0, observer, ...options, ...more });
    onTestFinished(async () => void (await guard.close()));
    return guard;
  }

  const store = faultyStore(inner);
  const another = (more?: Partial<GuardOptions>) => guardOn(faultyStore(inner), more);
  return { clock, store, guard: guardOn(store), events, another };
}

export const failure = (code: ErrorCode) => expect.objectContaining({ code });

/** Counts the results by status. */
export function tally(results: readonly { readonly status: string }[]): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const { status } of results) counted[status] = (counted[status] ?? 0) + 1;
  return counted;
}

/** Work that runs until the test finishes it. */
export function held<T>() {
  const { promise: isUnderWay, resolve: started } = deferred();
  const { promise: end, resolve: finish } = deferred<T>();
  const work = () => {
    started();
    return end;
  };
  return { work, isUnderWay, finish };
}

/** Simulates a process that dies during its work: the work never ends, and the lease lapses. */
export async function crash(
  { another, clock }: Scene,
  request: Parameters<Guard["run"]>[0],
  work: Parameters<Guard["run"]>[1] = () => {},
): Promise<void> {
  const dying = another();
  await new Promise<void>((resolve) => {
    void dying.tryRun(request, async (attempt) => {
      await work(attempt);
      resolve();
      return new Promise<never>(() => {});
    });
  });
  clock.advance(dying.policy.leaseMs);
}

/** A meter of the real SDK, and the values of its counters: `{ "claims new": 1 }`. */
export function createCounts() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => meterProvider.shutdown());

  async function counts(): Promise<Record<string, number>> {
    const { resourceMetrics } = await reader.collect();
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
    const points = metrics.flatMap(({ descriptor, dataPoints }) =>
      dataPoints.flatMap(({ attributes, value }) =>
        typeof value === "number" ? [[nameOf(descriptor.name, attributes), value] as const] : [],
      ),
    );
    return Object.fromEntries(points);
  }
  return { meterProvider, counts };
}

function nameOf(metric: string, attributes: Readonly<Record<string, unknown>>): string {
  const labels = Object.entries(attributes).filter(([name]) => name !== "nevertwice.operation");
  return [metric.replace("nevertwice.", ""), ...labels.map(([, value]) => value)].join(" ");
}
