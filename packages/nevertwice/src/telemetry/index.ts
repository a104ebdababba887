/**
 * What a guard does, as OpenTelemetry's metrics and spans. It is an observer, and it never fails: what OpenTelemetry
 * throws is told to its own `diag` once, and dropped.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Meter,
  type MeterProvider,
  metrics,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { NevertwiceError } from "../core/errors.ts";
import type { About, GuardEvent, Observer } from "../core/observer.ts";
import { type Check, checkOptions, isFunction, wholeFrom } from "../core/policy.ts";
import { type CallSpan, createCallSpan, originText, tellSpan } from "./call-span.ts";
import { type Ending, endingOfResult, endingOfThrow } from "./ending.ts";
import { boundedTo, OTHER } from "./labels.ts";
import { createRecorder, type Measurement, measureCall, measureEvent } from "./metrics.ts";
import { createQuietly, type Quietly } from "./quietly.ts";

export interface TelemetryOptions {
  /** Where metrics go. By default the meter provider that is registered with the API, also if that happens later. */
  readonly meterProvider?: MeterProvider | undefined;
  /** A meter of your own, instead of a provider's. */
  readonly meter?: Meter | undefined;
  /** Where spans go. By default the registered tracer provider. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** A tracer of your own, instead of a provider's. */
  readonly tracer?: Tracer | undefined;
  /** What an operation is called in metrics and in span names; undefined counts as `_OTHER`. By default, itself. */
  readonly operation?: ((operation: string) => string | undefined) | undefined;
  /** So many operations are told apart in metrics and in span names; all others are `_OTHER`. Default 100. */
  readonly maxOperations?: number | undefined;
}

const MAX_OPERATIONS = 100;

/** Errors are classes, and there are few of them; one whose name is made up as it is thrown shall cost nothing. */
const MAX_ERROR_TYPES = 50;

/** What our meter and tracer are called. */
const SCOPE = "nevertwice";

const CHECKS: { readonly [Name in keyof TelemetryOptions]-?: Check } = {
  meterProvider: has("getMeter"),
  meter: has("createCounter"),
  tracerProvider: has("getTracer"),
  tracer: has("startSpan"),
  operation: isFunction,
  maxOperations: wholeFrom(0),
};

/** For `createGuard({ store, observer: telemetry() })`. docs/telemetry.md has every metric and attribute. */
export function telemetry(options: TelemetryOptions = {}): Observer {
  checkOptions(options, CHECKS);
  checkOne(options, "meter", "meterProvider");
  checkOne(options, "tracer", "tracerProvider");
  const { maxOperations = MAX_OPERATIONS } = options;
  const quietly = createQuietly();
  const record = recorderOf(options, quietly);
  const tracer = tracerOf(options);
  // Not OpenTelemetry's own context: that is lost wherever no context manager is registered.
  const calls = new AsyncLocalStorage<CallSpan>();
  const operationLabel = boundedTo(maxOperations);
  const errorLabel = boundedTo(MAX_ERROR_TYPES);

  function labelOf(operation: string): string {
    const { operation: rename = (same: string) => same } = options;
    const label: unknown = quietly(() => rename(operation));
    return typeof label === "string" && label !== "" ? operationLabel(label) : OTHER;
  }

  function observe(event: GuardEvent): void {
    record(measureEvent(event, event.kind === "purged" ? OTHER : labelOf(event.operation)));
    const call = calls.getStore();
    if (call !== undefined) quietly(() => tellSpan(call, event));
  }

  async function around<T extends { readonly status: string }>(
    subject: About,
    call: () => Promise<T>,
  ): Promise<void> {
    const startedAt = performance.now();
    const label = labelOf(subject.operation);
    const span = createCallSpan({ subject, label, tracer, quietly });
    let ending: Ending;
    try {
      ending = endingOfResult(await calls.run(span, () => span.run(call)));
    } catch (thrown) {
      ending = endingOfThrow(thrown, span.isReplay, errorLabel);
    }
    record(measureCall(ending, (performance.now() - startedAt) / 1_000, label));
    span.end(ending);
  }

  const origin = () => quietly(() => originText(calls.getStore()?.span ?? trace.getActiveSpan()));
  return Object.assign(observe, { around, origin });
}

/** Asked anew at every use: a meter taken from the API before an SDK is registered would stay silent for ever. */
function recorderOf(
  { meter, meterProvider }: TelemetryOptions,
  quietly: Quietly,
): (measured: readonly Measurement[]) => void {
  let source: Meter | MeterProvider | undefined;
  let record: ((measurement: Measurement) => void) | undefined;
  return (measured) => {
    const provider = meterProvider ?? metrics.getMeterProvider();
    if (source !== (meter ?? provider)) {
      source = meter ?? provider;
      const found = quietly(() => meter ?? provider.getMeter(SCOPE));
      record = found && createRecorder(found, quietly);
    }
    if (record !== undefined) measured.forEach(record);
  };
}

/** The API's own tracer finds the registered provider by itself. */
function tracerOf({ tracer, tracerProvider }: TelemetryOptions): () => Tracer {
  let made = tracer;
  return () => {
    made ??= (tracerProvider ?? trace).getTracer(SCOPE);
    return made;
  };
}

function has(method: string): Check {
  return (name, value) => {
    if (typeof (value as Record<string, unknown> | null)?.[method] === "function") return;
    throw new NevertwiceError("options-invalid", `${name} must be OpenTelemetry's: it lacks ${method}().`);
  };
}

function checkOne(options: TelemetryOptions, one: "meter" | "tracer", other: keyof TelemetryOptions): void {
  if (options[one] === undefined || options[other] === undefined) return;
  throw new NevertwiceError("options-invalid", `${one} and ${other} are both given; give one of them.`);
}
