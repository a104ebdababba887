/** The retry loop: sends one request until an answer is final, the tries or the time run out, or the caller cancels. */
import { pause, untilAborted } from "./abort.ts";
import type { FetchSettings } from "./fetch-options.ts";
import type { KeyVerdict } from "./key-book.ts";
import { discard, type OutgoingRequest } from "./outgoing-request.ts";
import { problemOf } from "./problem.ts";
import { isIdempotent, judgeKey, pauseAfter, type Try } from "./retry-decision.ts";

/** A `TypeError`, like fetch's own, with the error of the last try as its cause. The outcome of the request is unknown. */
export interface NoAnswer extends TypeError {
  /** How often the request was sent. */
  readonly tries: number;
  /** Whether the request carried a key. Then it is safe to send it again with that key. */
  readonly hasKey: boolean;
  /** What `fetch` threw, or the reason of the timeout. */
  readonly cause: unknown;
}

export interface FinalAnswer {
  readonly response: Response;
  /** What all answers and failures together mean for the key, not the last one alone. */
  readonly verdict: KeyVerdict;
}

export interface TryLimits {
  readonly deadlineMs: number;
  /** Read the whole body before the answer counts: a try whose body breaks off is retried. */
  readonly isWhole: boolean;
}

const BRAND = Symbol.for("nevertwice.no-answer");

/** True for a `NoAnswer`, also from another copy of this package. */
export function isNoAnswer(error: unknown): error is NoAnswer {
  return typeof error === "object" && error !== null && BRAND in error;
}

/** Never throws because of a status. Throws the reason of the caller's signal, or a `NoAnswer`. */
export async function sendUntilAnswered(
  outgoing: OutgoingRequest,
  settings: FetchSettings,
  limits: TryLimits,
): Promise<FinalAnswer> {
  const { timer, header, retries } = settings;
  const hasKey = outgoing.headers.has(header);
  const mayRetry = outgoing.isResendable && (hasKey || isIdempotent(outgoing.method));
  const startedAt = timer.now();
  const leftMs = () => limits.deadlineMs - (timer.now() - startedAt);
  let isInDoubt = false;

  for (let tries = 1; ; tries++) {
    const tried = await sendOnce(outgoing, settings, { ...limits, deadlineMs: leftMs() });
    const verdict = judgeKey(tried);
    const pauseMs = mayRetry && tries <= retries ? pauseAfter(tried, tries, settings) : undefined;
    if (pauseMs === undefined || pauseMs >= leftMs()) {
      if ("error" in tried) throw noAnswer(tried.error, tries, hasKey);
      return {
        response: tried.response,
        verdict: verdict === "refused" && isInDoubt ? "unknown" : verdict,
      };
    }
    isInDoubt ||= verdict === "unknown";
    // An unread answer would hold its connection open.
    if ("response" in tried) discard(tried.response);
    notifyRetry(settings, outgoing, tried, { tries, pauseMs, hasKey });
    await pause(timer, pauseMs, outgoing.signal);
    // The pause may have taken longer than planned.
    if (leftMs() <= 0) throw noAnswer(timedOut(limits.deadlineMs), tries, hasKey);
  }
}

/** Throws only if the caller has cancelled. The timeout covers the headers, and the body if it is read. */
async function sendOnce(
  { input, init, headers, signal }: OutgoingRequest,
  { fetch, timer, timeoutMs }: FetchSettings,
  { deadlineMs, isWhole }: TryLimits,
): Promise<Try> {
  const time = new AbortController();
  const limitMs = Math.min(timeoutMs || deadlineMs, deadlineMs);
  const stop = timer.after(limitMs, () => time.abort(timedOut(limitMs)));
  // The caller's signal stays attached to the answer: it also aborts the reading of its body.
  const either = signal === undefined ? time.signal : AbortSignal.any([signal, time.signal]);
  try {
    const response = await untilAborted(either, fetch(input, { ...init, headers, signal: either }));
    if (isWhole) await untilAborted(either, response.clone().arrayBuffer());
    const problem = response.ok ? undefined : await untilAborted(either, problemOf(response));
    return { response, problem };
  } catch (error) {
    signal?.throwIfAborted();
    return { error, isOverdue: time.signal.aborted && limitMs === deadlineMs };
  } finally {
    stop();
  }
}

function timedOut(ms: number): DOMException {
  return new DOMException(`there was no answer within ${Math.round(ms)} ms.`, "TimeoutError");
}

function noAnswer(cause: unknown, tries: number, hasKey: boolean): NoAnswer {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const error = new TypeError(
    `${reason} (tries: ${tries}, ${hasKey ? "with" : "without"} an idempotency key)`,
    { cause },
  );
  Object.defineProperty(error, BRAND, { value: true });
  return Object.assign(error, { tries, hasKey, cause });
}

function notifyRetry(
  { onRetry }: FetchSettings,
  { method, url }: OutgoingRequest,
  tried: Try,
  facts: { readonly tries: number; readonly pauseMs: number; readonly hasKey: boolean },
): void {
  const outcome = "error" in tried ? { error: tried.error } : { status: tried.response.status };
  const notify = async () => onRetry({ method, url, ...facts, ...outcome });
  // An error in `onRetry` must not fail the request.
  notify().catch(() => {});
}
