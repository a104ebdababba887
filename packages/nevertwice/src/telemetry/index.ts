/**
 * An observer that reports what a guard does as OpenTelemetry metrics and spans. It never fails: the first error of
 * OpenTelemetry is logged to its own `diag`, and the others are ignored.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Meter,
  type MeterProvider,
  metrics,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { NevertwiceError } from "../core/errors.ts";
import type { About, GuardEvent, Observer } from "../core/observer.ts";
import { type Check, checkOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import { type CallEnding, endingFromResult, endingFromThrow } from "./call-ending.ts";
import { type CallSpan, createCallSpan, originText, recordEvent } from "./call-span.ts";
import { createFailsafe, type Failsafe } from "./failsafe.ts";
import { createLabelLimit, OTHER } from "./labels.ts";
import { createRecorder, type Measurement, measureCall, measureEvent } from "./metrics.ts";

export interface TelemetryOptions {
  /** Where metrics go. By default the meter provider that is registered with the API, even if it is registered later. */
  readonly meterProvider?: MeterProvider | undefined;
  /** A meter to use instead of one from a provider. */
  readonly meter?: CounterMeter | undefined;
  /** Where spans go. By default the registered tracer provider. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** A tracer to use instead of one from a provider. */
  readonly tracer?: Tracer | undefined;
  /** Renames operations for metrics and span names; undefined counts as `_OTHER`. By default, names are unchanged. */
  readonly operation?: ((operation: string) => string | undefined) | undefined;
  /** How many different operations appear in metrics and span names; all others are `_OTHER`. Default 100. */
  readonly maxOperations?: number | undefined;
  /** The attribute `nevertwice.namespace` of all metrics that have an operation. By default they have none. */
  readonly namespace?: string | undefined;
}

/** The part of a meter that telemetry uses. */
export type CounterMeter = Pick<Meter, "createCounter" | "createHistogram">;

const MAX_OPERATIONS = 100;

/** Error names are few. The limit protects against names that are generated when an error is thrown. */
const MAX_ERROR_TYPES = 50;

/** The name of our meter and tracer. */
const SCOPE = "nevertwice";

const CHECKS: { readonly [Name in keyof TelemetryOptions]-?: Check } = {
  meterProvider: has("getMeter"),
  meter: has("createCounter"),
  tracerProvider: has("getTracer"),
  tracer: has("startSpan"),
  operation: isFunction,
  maxOperations: wholeFrom(0),
  namespace: isString,
};

/** For `createGuard({ store, observer: telemetry() })`. docs/metrics.md has every metric and attribute. */
export function telemetry(options: TelemetryOptions = {}): Observer {
  checkOptions(options, CHECKS);
  checkOne(options, "meter", "meterProvider");
  checkOne(options, "tracer", "tracerProvider");
  const { maxOperations = MAX_OPERATIONS, namespace } = options;
  const own: Attributes = namespace === undefined ? {} : { "nevertwice.namespace": namespace };
  const failsafe = createFailsafe();
  const record = createLazyRecorder(options, failsafe);
  const tracer = createTracerSource(options);
  // Not the context of OpenTelemetry, which does not work unless a context manager is registered.
  const calls = new AsyncLocalStorage<CallSpan>();
  const operationLabel = createLabelLimit(maxOperations);
  const errorLabel = createLabelLimit(MAX_ERROR_TYPES);

  function toLabel(operation: string): string {
    const { operation: rename = (same: string) => same } = options;
    const label: unknown = failsafe(() => rename(operation));
    return typeof label === "string" && label !== "" ? operationLabel(label) : OTHER;
  }

  function observe(event: GuardEvent): void {
    const label = event.kind === "purged" ? OTHER : toLabel(event.operation);
    record(measureEvent(event, { ...own, "nevertwice.operation": label }));
    const call = calls.getStore();
    if (call !== undefined) failsafe(() => recordEvent(call, event));
  }

  async function around<T extends { readonly status: string }>(
    subject: About,
    call: () => Promise<T>,
  ): Promise<void> {
    const startedAt = performance.now();
    const label = toLabel(subject.operation);
    const span = createCallSpan({ subject, label, tracer, failsafe });
    let ending: CallEnding;
    try {
      ending = endingFromResult(await calls.run(span, () => span.run(call)));
    } catch (thrown) {
      ending = endingFromThrow(thrown, span.isReplay, errorLabel);
    }
    record(
      measureCall(ending, (performance.now() - startedAt) / 1_000, {
        ...own,
        "nevertwice.operation": label,
      }),
    );
    span.end(ending);
  }

  const origin = () => failsafe(() => originText(calls.getStore()?.span ?? trace.getActiveSpan()));
  return Object.assign(observe, { around, origin });
}

/** Looks the meter up at every use: a meter from before the SDK was registered would never record anything. */
function createLazyRecorder(
  { meter, meterProvider }: TelemetryOptions,
  failsafe: Failsafe,
): (measured: readonly Measurement[]) => void {
  let source: CounterMeter | MeterProvider | undefined;
  let record: ((measurement: Measurement) => void) | undefined;
  return (measured) => {
    const provider = meterProvider ?? metrics.getMeterProvider();
    if (source !== (meter ?? provider)) {
      source = meter ?? provider;
      const found = failsafe(() => meter ?? provider.getMeter(SCOPE));
      record = found && createRecorder(found, failsafe);
    }
    if (record !== undefined) measured.forEach(record);
  };
}

/** The tracer of the API finds the registered provider itself, so it can be created once. */
function createTracerSource({ tracer, tracerProvider }: TelemetryOptions): () => Tracer {
  let made = tracer;
  return () => {
    made ??= (tracerProvider ?? trace).getTracer(SCOPE);
    return made;
  };
}

function has(method: string): Check {
  return (name, value) => {
    if (typeof (value as Record<string, unknown> | null)?.[method] === "function") return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be an object of OpenTelemetry: it lacks ${method}().`,
    );
  };
}

function isString(name: string, value: unknown): void {
  if (typeof value === "string") return;
  throw new NevertwiceError("options-invalid", `${name} must be a string.`);
}

function checkOne(options: TelemetryOptions, one: "meter" | "tracer", other: keyof TelemetryOptions): void {
  if (options[one] === undefined || options[other] === undefined) return;
  throw new NevertwiceError("options-invalid", `${one} and ${other} are both given; give one of them.`);
}
