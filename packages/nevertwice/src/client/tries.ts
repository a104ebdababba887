/** The loop: one request, sent until an answer stands, the tries or the time run out, or its caller leaves. */
import { pause, untilAborted } from "./abort.ts";
import type { Meaning } from "./key-book.ts";
import { discard, type Outgoing } from "./outgoing.ts";
import { problemOf } from "./problem.ts";
import { isIdempotent, meaningOf, pauseAfter, type Try } from "./retry.ts";
import type { Settings } from "./settings.ts";

/** What fetch threw at the last try, in an error of fetch's own kind. Whether the request was carried out is unknown. */
export interface NoAnswer extends TypeError {
  /** How often the request was sent. */
  readonly tries: number;
  /** Whether it carried a key, so that sending it once more under that key is safe. */
  readonly hasKey: boolean;
  readonly cause: unknown;
}

export interface Standing {
  readonly response: Response;
  /** Of all the answers and failures there were, not of the last alone. */
  readonly meaning: Meaning;
}

export interface TryLimits {
  readonly deadlineMs: number;
  /** An answer counts once its body is here as well: one that breaks off is tried again. */
  readonly isWhole: boolean;
}

const BRAND = Symbol.for("nevertwice.no-answer");

/** True for a `NoAnswer` of any copy of this package. */
export function isNoAnswer(error: unknown): error is NoAnswer {
  return typeof error === "object" && error !== null && BRAND in error;
}

/** Never throws for a status. Throws the reason of the caller's signal as it is, and a `NoAnswer` otherwise. */
export async function sendUntilAnswered(
  outgoing: Outgoing,
  settings: Settings,
  limits: TryLimits,
): Promise<Standing> {
  const { timer, header, retries } = settings;
  const hasKey = outgoing.headers.has(header);
  const mayRetry = outgoing.isResendable && (hasKey || isIdempotent(outgoing.method));
  const startedAt = timer.now();
  const leftMs = () => limits.deadlineMs - (timer.now() - startedAt);
  let isInDoubt = false;

  for (let tries = 1; ; tries++) {
    const tried = await sendOnce(outgoing, settings, { ...limits, deadlineMs: leftMs() });
    const meaning = meaningOf(tried);
    const pauseMs = mayRetry && tries <= retries ? pauseAfter(tried, tries, settings) : undefined;
    if (pauseMs === undefined || pauseMs >= leftMs()) {
      if ("error" in tried) throw noAnswer(tried.error, tries, hasKey);
      return {
        response: tried.response,
        meaning: meaning === "refused" && isInDoubt ? "unknown" : meaning,
      };
    }
    isInDoubt ||= meaning === "unknown";
    // An answer that nobody reads would hold its connection.
    if ("response" in tried) discard(tried.response);
    tell(settings, outgoing, tried, { tries, pauseMs, hasKey });
    await pause(timer, pauseMs, outgoing.signal);
    // The pause itself may have been longer than it was meant to be.
    if (leftMs() <= 0) throw noAnswer(timedOut(limits.deadlineMs), tries, hasKey);
  }
}

/** Throws only if the caller's signal fired. The time counts until the headers are here, and what else we read. */
async function sendOnce(
  { input, init, headers, signal }: Outgoing,
  { fetch, timer, timeoutMs }: Settings,
  { deadlineMs, isWhole }: TryLimits,
): Promise<Try> {
  const time = new AbortController();
  const limitMs = timeoutMs === 0 ? deadlineMs : Math.min(timeoutMs, deadlineMs);
  const stop = timer.after(limitMs, () => time.abort(timedOut(limitMs)));
  // The caller's signal stays with the answer: it ends the reading of its body too.
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

function tell(
  { onRetry }: Settings,
  { method, url }: Outgoing,
  tried: Try,
  facts: { readonly tries: number; readonly pauseMs: number; readonly hasKey: boolean },
): void {
  const outcome = "error" in tried ? { error: tried.error } : { status: tried.response.status };
  try {
    const answer = onRetry({ method, url, ...facts, ...outcome });
    if (answer instanceof Promise) answer.catch(() => {});
  } catch {
    // Watching must not break what is watched.
  }
}
