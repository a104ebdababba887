/** The span of one call: it stands around the work, is told what happens, and links a duplicate to its original. */
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
import type { Ending } from "./ending.ts";
import { OTHER } from "./labels.ts";
import type { Quietly } from "./quietly.ts";

export interface CallSpan {
  readonly keyHash: string;
  /** Undefined if it could not be started. */
  readonly span: Span | undefined;
  /** A kept outcome answered: what the call throws now is the original's error. */
  isReplay: boolean;
  /** Events may still come, from the background. */
  isEnded: boolean;
  /** Makes the call once, so that spans of the work are children of this one. */
  run<T>(call: () => Promise<T>): Promise<T>;
  end(ending: Ending): void;
}

interface CallSpanOptions {
  readonly subject: About;
  readonly label: string;
  readonly tracer: () => Tracer;
  readonly quietly: Quietly;
}

export function createCallSpan({ subject, label, tracer, quietly }: CallSpanOptions): CallSpan {
  const { operation, keyHash } = subject;
  const span = quietly(() =>
    tracer().startSpan(label === OTHER ? "nevertwice" : `nevertwice ${label}`, {
      kind: SpanKind.INTERNAL,
      attributes: { "nevertwice.operation": operation, "nevertwice.key_hash": keyHash },
    }),
  );
  return {
    keyHash,
    span,
    isReplay: false,
    isEnded: false,
    run(call) {
      let made: ReturnType<typeof call> | undefined;
      const once = () => {
        made ??= call();
        return made;
      };
      if (span !== undefined) quietly(() => context.with(trace.setSpan(context.active(), span), once));
      return once();
    },
    end({ status, errorType, isFailure, isRecorded }) {
      this.isEnded = true;
      quietly(() => {
        span?.setAttributes({ "nevertwice.status": status, "nevertwice.replayed": status === "replayed" });
        if (isRecorded === false) span?.setAttribute("nevertwice.recorded", false);
        if (!isFailure) return;
        if (errorType !== undefined) span?.setAttribute("error.type", errorType);
        span?.setStatus({ code: SpanStatusCode.ERROR });
      });
      // Whatever became of the rest: a span that is not ended is never sent.
      quietly(() => span?.end());
    },
  };
}

/** Tells the span of the call in whose context the event happened. */
export function tellSpan(call: CallSpan, event: GuardEvent): void {
  // The work of one key may decide about another.
  if (event.kind === "purged" || event.keyHash !== call.keyHash) return;
  if (event.kind === "replayed") call.isReplay = true;
  const { span } = call;
  if (span === undefined || call.isEnded) return;
  const attributes = attributesOf(event);
  if (attributes !== undefined) span.setAttributes(attributes);
  if (event.kind === "replayed" && event.origin !== undefined) link(span, event.origin);
}

function attributesOf(event: GuardEvent): Attributes | undefined {
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
    case "abandoned":
      return { "nevertwice.abandoned_as": event.as };
    case "lease-lost":
      return { "nevertwice.lease_lost": event.reason };
    case "not-kept":
      return { "nevertwice.not_kept": true };
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

/** The original's trace, span and flags as W3C's traceparent writes them. */
const ORIGIN = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

export function originText(span: Span | undefined): string | undefined {
  const { traceId, spanId, traceFlags = 0 } = span?.spanContext() ?? {};
  const text = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  return spanContextOf(text) && text;
}

/** Undefined for what another observer, or nobody that we know, has written. */
function spanContextOf(origin: string): SpanContext | undefined {
  const [, traceId, spanId, flags] = ORIGIN.exec(origin) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const found = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(found) ? found : undefined;
}

function link(span: Span, origin: string): void {
  const original = spanContextOf(origin);
  if (original === undefined) return;
  // Spans take links after their start since 2024. Older SDKs are registered with newer APIs, too.
  const { addLink } = span as Partial<Pick<Span, "addLink">>;
  if (addLink !== undefined) addLink.call(span, { context: original });
  else span.setAttribute("nevertwice.origin", origin);
}
