/** Decides after each try: whether to retry, after which pause, and what the answer means for the key. */

import { type FetchSettings, NEVER_RETRIED } from "./fetch-options.ts";
import type { KeyVerdict } from "./key-book.ts";
import type { ProblemDetails } from "./problem.ts";
import { retryAfterMs } from "./retry-after.ts";

interface AnsweredTry {
  readonly response: Response;
  readonly problem: ProblemDetails | undefined;
}

/** `isOverdue`: the deadline for all tries has passed. */
export type Try = AnsweredTry | { readonly error: unknown; readonly isOverdue: boolean };

/** Methods that are idempotent by definition (RFC 9110, section 9.2.2). */
const IDEMPOTENT = /^(GET|HEAD|OPTIONS|PUT|DELETE)$/;

export function isIdempotent(method: string): boolean {
  return IDEMPOTENT.test(method);
}

/** The pause before the next try, after `tries` tries; undefined for no further try. */
export function pauseAfter(tried: Try, tries: number, settings: FetchSettings): number | undefined {
  const { firstPauseMs, maxPauseMs, maxRetryAfterMs, random, clock } = settings;
  const jitterMs = random() * Math.min(maxPauseMs, firstPauseMs * 2 ** (tries - 1));
  if ("error" in tried) return tried.isOverdue ? undefined : jitterMs;
  if (!isRetried(tried, settings)) return undefined;
  const askedMs = retryAfterMs(tried.response.headers, clock) ?? 0;
  // The jitter is added to `Retry-After`, since the server sends the same value to all of its clients.
  return askedMs > maxRetryAfterMs ? undefined : askedMs + jitterMs;
}

function isRetried({ response, problem }: AnsweredTry, { retryStatuses }: FetchSettings): boolean {
  const { status, headers } = response;
  if (status < 400 || NEVER_RETRIED.includes(status) || problem?.retryable === false) return false;
  const advice = headers.get("stripe-should-retry") ?? headers.get("x-should-retry");
  if (advice === "true" || advice === "false") return advice === "true";
  // Among the meanings of 409, only a request that is still running has a `Retry-After`.
  return retryStatuses.includes(status) || (status === 409 && headers.has("retry-after"));
}

/** Refused before anything was done: not allowed, too early, too many requests. */
const REFUSED = [401, 403, 425, 429];
/** The request may still have been carried out, or may be carried out later. */
const IN_DOUBT = [408, 409];

export function judgeKey(tried: Try): KeyVerdict {
  if ("error" in tried) return "unknown";
  const { response, problem } = tried;
  if (REFUSED.includes(response.status)) return "refused";
  if (IN_DOUBT.includes(response.status) || response.status >= 500) return "unknown";
  // The key belongs to another request, and this answer says nothing about that one.
  return problem?.code === "conflict" ? "unknown" : "final";
}
