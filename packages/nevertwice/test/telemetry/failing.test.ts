/** A metric that fails breaks nothing: neither what a caller gets nor how often the work runs. */
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

/** Has every method, and each throws, but for those that are given. */
function brokenBut<T extends object>(working: Partial<T> = {}): T {
  return new Proxy(working, { get: (_, name) => Reflect.get(working, name) ?? broken }) as T;
}

/** So that a test can get rid of it. */
function disable(this: ContextManager) {
  return this;
}

const brokenInstruments = () =>
  brokenBut<Meter>({ createCounter: () => brokenBut(), createHistogram: () => brokenBut() });
const brokenSpans = () => brokenBut<Tracer>({ startSpan: () => brokenBut() });

/** All that a caller can see of a guard, in one story, and how often the work ran. */
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

/** The same story without telemetry, written out. */
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

describe("the story is the same", () => {
  test.each<[string, TelemetryOptions]>([
    ["a meter that makes no instruments", { meter: brokenBut<Meter>({}) }],
    ["instruments that all throw", { meter: brokenInstruments() }],
    ["a meter provider that gives no meter", { meterProvider: brokenBut<MeterProvider>({}) }],
    ["a tracer that starts no spans", { tracer: brokenBut<Tracer>({}) }],
    ["spans that all throw", { tracer: brokenSpans() }],
    ["a tracer provider that gives no tracer", { tracerProvider: brokenBut<TracerProvider>({}) }],
    ["everything broken", { meter: brokenInstruments(), tracer: brokenSpans(), operation: broken }],
    ["no SDK at all", {}],
  ])("with %s", async (_, options) => {
    expect(await story(telemetry(options))).toEqual(EXPECTED);
  });

  test("with a context manager that throws before it runs anything", async () => {
    context.setGlobalContextManager(brokenBut<ContextManager>({ disable }));
    expect(await story(telemetry({ tracerProvider: createTracesSdk().tracerProvider }))).toEqual(EXPECTED);
  });

  test("with a context manager that throws after it ran what it was given", async () => {
    context.setGlobalContextManager(
      brokenBut<ContextManager>({
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
    trace.setGlobalTracerProvider(brokenBut());
    metrics.setGlobalMeterProvider(brokenBut());
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
  ])("with a neighbour whose around %s, and telemetry still sees it all", async (_, around) => {
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

test("standing around a call, it makes it once and never fails itself", async () => {
  const { around } = telemetry({ tracer: brokenSpans(), meter: brokenInstruments(), operation: broken });
  const subject = { operation: "charge", keyHash: "0123456789abcdef" };
  const call = vi.fn(() => Promise.resolve({ status: "ran" }));
  await around?.(subject, call);
  await around?.(subject, () => Promise.reject(new Error("no")));
  expect(call).toHaveBeenCalledTimes(1);
});

describe("what works goes on", () => {
  test("metrics, if the tracer is broken: replays of errors are told from errors as ever", async () => {
    const { meterProvider, counts, durations } = createMetricsSdk();
    await story(telemetry({ meterProvider, tracer: brokenBut<Tracer>({}) }));
    expect(await counts("nevertwice.claims")).toMatchObject({
      "answer=new, operation=charge": 3,
      "answer=replayed, operation=charge": 7,
    });
    const failed = "error.type=RangeError, operation=charge, status=failed";
    expect((await durations("nevertwice.call.duration"))[failed]?.count).toBe(1);
  });

  test("spans, if the meter is broken", async () => {
    const { tracerProvider, spans } = createTracesSdk();
    await story(telemetry({ tracerProvider, meter: brokenBut<Meter>({}) }));
    expect(spans()).toHaveLength(12);
  });

  test("one instrument, if another cannot be made", async () => {
    const { meterProvider, counts } = createMetricsSdk();
    const real = meterProvider.getMeter("half");
    const half: Meter = Object.create(real, { createHistogram: { value: broken } });
    await story(telemetry({ meter: half }));
    expect(await counts("nevertwice.claims")).toMatchObject({ "answer=new, operation=charge": 3 });
  });

  test("a span whose attributes cannot be set ends all the same", async () => {
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

test("the first failure is told to OpenTelemetry's own log, and no other", async () => {
  const warn = vi.fn();
  diag.setLogger({ warn, error() {}, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
  await story(telemetry({ meter: brokenBut<Meter>({}), tracer: brokenSpans() }));
  expect(warn).toHaveBeenCalledTimes(1);
  expect(warn).toHaveBeenCalledWith(expect.stringContaining("nevertwice"), expect.any(Error));
});

test("a log that fails as well breaks nothing", async () => {
  let isSet = false;
  const warn = () => isSet && broken();
  diag.setLogger({ warn, error() {}, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
  isSet = true;
  expect(await story(telemetry({ meter: brokenBut<Meter>({}) }))).toEqual(EXPECTED);
});

test("telemetry stands beside an observer of one's own", async () => {
  const { meterProvider, counts } = createMetricsSdk();
  const kinds: string[] = [];
  await story([telemetry({ meterProvider }), ({ kind }) => kinds.push(kind)]);
  expect(kinds.filter((kind) => kind === "claimed")).toHaveLength(3);
  expect(await counts("nevertwice.claims")).toMatchObject({ "answer=new, operation=charge": 3 });
});
