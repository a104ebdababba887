/** The span of one call. It contains the work, records the events of the call, and links a duplicate to its original. */
import {
  type Attributes,
  context,
  isSpanContextValid,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { About, GuardEvent } from "../core/observer.ts";
import type { CallEnding } from "./call-ending.ts";
import type { Failsafe } from "./failsafe.ts";
import { OTHER } from "./labels.ts";

export interface CallSpan {
  readonly keyHash: string;
  /** Undefined if the span could not be started. */
  readonly span: Span | undefined;
  /** The call replays a stored outcome, so an error that it throws is the error of the original. */
  isReplay: boolean;
  /** The call met a completed record, but does not get its outcome. */
  isFaulty: boolean;
  /** After the end, events may still come from background tasks. */
  isEnded: boolean;
  /** Runs the call once, with this span as the parent of the spans of the work. */
  run<T>(call: () => Promise<T>): Promise<T>;
  end(ending: CallEnding): void;
}

interface CallSpanOptions {
  readonly subject: About;
  readonly label: string;
  readonly tracer: () => Tracer;
  readonly failsafe: Failsafe;
}

export function createCallSpan({ subject, label, tracer, failsafe }: CallSpanOptions): CallSpan {
  const { operation, keyHash } = subject;
  const span = failsafe(() =>
    tracer().startSpan(label === OTHER ? "nevertwice" : `nevertwice ${label}`, {
      kind: SpanKind.INTERNAL,
      attributes: { "nevertwice.operation": operation, "nevertwice.key_hash": keyHash },
    }),
  );
  return {
    keyHash,
    span,
    isReplay: false,
    isFaulty: false,
    isEnded: false,
    run(call) {
      let made: ReturnType<typeof call> | undefined;
      const once = () => {
        made ??= call();
        return made;
      };
      if (span !== undefined) failsafe(() => context.with(trace.setSpan(context.active(), span), once));
      return once();
    },
    end({ status, errorType, isFailure, isRecorded }) {
      this.isEnded = true;
      failsafe(() => {
        span?.setAttributes({
          "nevertwice.status": status,
          "nevertwice.replayed": status === "replayed" && !this.isFaulty,
        });
        if (isRecorded === false) span?.setAttribute("nevertwice.recorded", false);
        if (!isFailure) return;
        if (errorType !== undefined) span?.setAttribute("error.type", errorType);
        span?.setStatus({ code: SpanStatusCode.ERROR });
      });
      // Always: a span that is not ended is never sent.
      failsafe(() => span?.end());
    },
  };
}

/** Records an event on the span of the call in whose context it happened. */
export function recordEvent(call: CallSpan, event: GuardEvent): void {
  // The work of one key may call the guard for another key.
  if (event.kind === "purged" || event.keyHash !== call.keyHash) return;
  if (event.kind === "replayed") call.isReplay = true;
  if (isReplayFault(event)) call.isFaulty = true;
  const { span } = call;
  if (span === undefined || call.isEnded) return;
  const attributes = eventAttributes(event);
  if (attributes !== undefined) span.setAttributes(attributes);
  if ((event.kind === "replayed" || isReplayFault(event)) && event.origin !== undefined)
    link(span, event.origin);
}

type ReplayFaultEvent = Extract<GuardEvent, { readonly kind: `replay-${string}` }>;

function isReplayFault(event: GuardEvent): event is ReplayFaultEvent {
  return event.kind.startsWith("replay-");
}

function eventAttributes(event: GuardEvent): Attributes | undefined {
  switch (event.kind) {
    case "claimed":
    case "taken-over":
      return {
        "nevertwice.fence": event.fence,
        "nevertwice.attempt": event.number,
        "nevertwice.taken_over": event.kind === "taken-over",
      };
    case "waited":
      return { "nevertwice.waited": event.waitedMs / 1_000 };
    case "step-kept":
    case "step-skipped":
      return { "nevertwice.steps": event.position };
    case "abandoned":
      return { "nevertwice.abandoned_as": event.as };
    case "lease-lost":
      return { "nevertwice.lease_lost": event.reason };
    case "not-kept":
      return { "nevertwice.not_kept": true };
    case "replay-not-kept":
    case "replay-unreadable":
    case "replay-expired":
      return { "nevertwice.not_replayed": event.kind.slice("replay-".length) };
    case "unavailable":
      return { "nevertwice.unavailable_during": event.during };
    case "proceeded":
      return { "nevertwice.unguarded": true };
    case "possible-duplicate":
      return { "nevertwice.possible_duplicate": true };
    default:
      return undefined;
  }
}

/** Trace, span and flags of the original, in the form of a W3C traceparent. */
const ORIGIN = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

export function originText(span: Span | undefined): string | undefined {
  const { traceId, spanId, traceFlags = 0 } = span?.spanContext() ?? {};
  const text = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  return parseOrigin(text) && text;
}

/** Undefined for an origin that another observer wrote. */
function parseOrigin(origin: string): SpanContext | undefined {
  const [, traceId, spanId, flags] = ORIGIN.exec(origin) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const found = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(found) ? found : undefined;
}

function link(span: Span, origin: string): void {
  const original = parseOrigin(origin);
  if (original === undefined) return;
  // `addLink` exists since 2024, and an older SDK may be registered with a newer API.
  const { addLink } = span as Partial<Pick<Span, "addLink">>;
  if (addLink !== undefined) addLink.call(span, { context: original });
  else span.setAttribute("nevertwice.origin", origin);
}
