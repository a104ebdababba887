/** Tests that telemetry that fails breaks nothing: neither what a caller gets nor how often the work runs. */
import {
  type ContextManager,
  context,
  DiagLogLevel,
  diag,
  type Meter,
  type MeterProvider,
  metrics,
  ROOT_CONTEXT,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Observer } from "../../src/core/observer.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type TelemetryOptions, telemetry } from "../../src/telemetry/index.ts";
import { createMetricsSdk, createTracesSdk } from "./sdk.ts";

const request = { operation: "charge", key: "order-1" };

afterEach(() => {
  context.disable();
  trace.disable();
  metrics.disable();
  diag.disable();
});

function broken(): never {
  throw new Error("telemetry is broken");
}

/** An object with every method: those that are given work, and all others throw. */
function brokenExcept<T extends object>(working: Partial<T> = {}): T {
  return new Proxy(working, { get: (_, name) => Reflect.get(working, name) ?? broken }) as T;
}

/** Lets a test remove the context manager. */
function disable(this: ContextManager) {
  return this;
}

const brokenInstruments = () =>
  brokenExcept<Meter>({ createCounter: () => brokenExcept(), createHistogram: () => brokenExcept() });
const brokenSpans = () => brokenExcept<Tracer>({ startSpan: () => brokenExcept() });

/** Makes every kind of call that a caller can make, and returns the answers and how often the work ran. */
async function story(observer: Observer | readonly Observer[] | undefined) {
  const guard = createGuard({ store: memoryStore(), observer, onFailure: "remember" });
  let runs = 0;
  const work = () => Promise.resolve(++runs);
  const declined = () => Promise.reject(new RangeError(`declined ${++runs}`));
  const told = [
    await guard.run(request, work),
    await guard.run(request, work),
    await guard.tryRun({ ...request, fingerprint: 1 }, work),
    await guard.tryRun({ ...request, onCompleted: "reject" }, work),
    await guard.run({ ...request, key: "b" }, declined).catch(String),
    await guard.run({ ...request, key: "b" }, declined).catch(String),
    await Promise.all(Array.from({ length: 5 }, () => guard.run({ ...request, key: "c" }, work))),
    await guard.close(),
    await guard.tryRun(request, work).then(({ status }) => status),
  ];
  return { told, runs };
}

/** The answers without telemetry, written out. */
const EXPECTED = {
  told: [
    1,
    1,
    { status: "replayed", value: 1 },
    { status: "already-done" },
    "RangeError: declined 2",
    "RangeError: declined 2",
    [3, 3, 3, 3, 3],
    [],
    "unavailable",
  ],
  runs: 3,
};

describe("the answers are the same", () => {
  test.each<[string, TelemetryOptions]>([
    ["a meter that creates no instruments", { meter: brokenExcept<Meter>({}) }],
    ["instruments that throw", { meter: brokenInstruments() }],
    ["a meter provider that returns no meter", { meterProvider: brokenExcept<MeterProvider>({}) }],
    ["a tracer that starts no spans", { tracer: brokenExcept<Tracer>({}) }],
    ["spans that throw", { tracer: brokenSpans() }],
    ["a tracer provider that returns no tracer", { tracerProvider: brokenExcept<TracerProvider>({}) }],
    ["everything broken", { meter: brokenInstruments(), tracer: brokenSpans(), operation: broken }],
    ["no SDK at all", {}],
  ])("with %s", async (_, options) => {
    expect(await story(telemetry(options))).toEqual(EXPECTED);
  });

  test("with a context manager that throws before it runs the callback", async () => {
    context.setGlobalContextManager(brokenExcept<ContextManager>({ disable }));
    expect(await story(telemetry({ tracerProvider: createTracesSdk().tracerProvider }))).toEqual(EXPECTED);
  });

  test("with a context manager that throws after it ran the callback", async () => {
    context.setGlobalContextManager(
      brokenExcept<ContextManager>({
        disable,
        active: () => ROOT_CONTEXT,
        with: ((_context: unknown, run: () => unknown) => {
          run();
          broken();
        }) as ContextManager["with"],
      }),
    );
    expect(await story(telemetry({ tracerProvider: createTracesSdk().tracerProvider }))).toEqual(EXPECTED);
  });

  test("with a global API that throws", async () => {
    trace.setGlobalTracerProvider(brokenExcept());
    metrics.setGlobalMeterProvider(brokenExcept());
    expect(await story(telemetry())).toEqual(EXPECTED);
  });

  test.each<[string, NonNullable<Observer["around"]>]>([
    ["throws before the call", () => broken()],
    [
      "throws after the call",
      async (_, call) => {
        await call();
        broken();
      },
    ],
    ["never makes the call", async () => {}],
    ["makes the call twice", (_, call) => Promise.all([call(), call()])],
    ["makes the call late", async (_, call) => void setTimeout(call, 1)],
  ])("with another observer whose around %s, and telemetry still records every call", async (_, around) => {
    const { tracerProvider, spans } = createTracesSdk();
    const { meterProvider, counts } = createMetricsSdk();
    const neighbour: Observer = Object.assign(() => {}, { around });
    for (const observers of [
      [neighbour, telemetry({ tracerProvider, meterProvider })],
      [telemetry({ tracerProvider, meterProvider }), neighbour],
    ])
      expect(await story(observers)).toEqual(EXPECTED);
    expect(spans()).toHaveLength(2 * 12);
    expect(await counts("nevertwice.claims")).toMatchObject({ "answer=new, operation=charge": 2 * 3 });
  });
});

test("around makes the call once, and never rejects", async () => {
  const { around } = telemetry({ tracer: brokenSpans(), meter: brokenInstruments(), operation: broken });
  const subject = { operation: "charge", keyHash: "0123456789abcdef" };
  const call = vi.fn(() => Promise.resolve({ status: "ran" }));
  await around?.(subject, call);
  await around?.(subject, () => Promise.reject(new Error("no")));
  expect(call).toHaveBeenCalledTimes(1);
});

describe("the working parts continue", () => {
  test("metrics, if the tracer is broken: replayed errors are still distinguished from errors", async () => {
    const { meterProvider, counts, durations } = createMetricsSdk();
    await story(telemetry({ meterProvider, tracer: brokenExcept<Tracer>({}) }));
    expect(await counts("nevertwice.claims")).toMatchObject({
      "answer=new, operation=charge": 3,
      "answer=replayed, operation=charge": 7,
    });
    const failed = "error.type=RangeError, operation=charge, status=failed";
    expect((await durations("nevertwice.call.duration"))[failed]?.count).toBe(1);
  });

  test("spans, if the meter is broken", async () => {
    const { tracerProvider, spans } = createTracesSdk();
    await story(telemetry({ tracerProvider, meter: brokenExcept<Meter>({}) }));
    expect(spans()).toHaveLength(12);
  });

  test("one instrument, if another cannot be created", async () => {
    const { meterProvider, counts } = createMetricsSdk();
    const real = meterProvider.getMeter("half");
    const half: Meter = Object.create(real, { createHistogram: { value: broken } });
    await story(telemetry({ meter: half }));
    expect(await counts("nevertwice.claims")).toMatchObject({ "answer=new, operation=charge": 3 });
  });

  test("a span whose attributes cannot be set still ends", async () => {
    const { tracerProvider, spans } = createTracesSdk();
    const real = tracerProvider.getTracer("half");
    const half: Tracer = Object.create(real, {
      startSpan: {
        value: (...args: Parameters<Tracer["startSpan"]>) =>
          Object.assign(real.startSpan(...args), { setAttributes: broken, setAttribute: broken }),
      },
    });
    expect(await story(telemetry({ tracer: half }))).toEqual(EXPECTED);
    expect(spans()).toHaveLength(12);
  });
});

test("only the first failure is reported to OpenTelemetry's own log", async () => {
  const warn = vi.fn();
  diag.setLogger({ warn, error() {}, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
  await story(telemetry({ meter: brokenExcept<Meter>({}), tracer: brokenSpans() }));
  expect(warn).toHaveBeenCalledTimes(1);
  expect(warn).toHaveBeenCalledWith(expect.stringContaining("nevertwice"), expect.any(Error));
});

test("a log that fails as well breaks nothing", async () => {
  let isSet = false;
  const warn = () => isSet && broken();
  diag.setLogger({ warn, error() {}, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
  isSet = true;
  expect(await story(telemetry({ meter: brokenExcept<Meter>({}) }))).toEqual(EXPECTED);
});

test("telemetry works next to an observer of the application", async () => {
  const { meterProvider, counts } = createMetricsSdk();
  const kinds: string[] = [];
  await story([telemetry({ meterProvider }), ({ kind }) => kinds.push(kind)]);
  expect(kinds.filter((kind) => kind === "claimed")).toHaveLength(3);
  expect(await counts("nevertwice.claims")).toMatchObject({ "answer=new, operation=charge": 3 });
});
