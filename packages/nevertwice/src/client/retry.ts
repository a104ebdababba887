/** What comes after a try: another one, and when; or an answer that stands, and what it says about the key. */
import type { Meaning } from "./key-book.ts";
import type { ProblemDetails } from "./problem.ts";
import { retryAfterMs } from "./retry-after.ts";
import { NEVER_RETRIED, type Settings } from "./settings.ts";

interface Answer {
  readonly response: Response;
  readonly problem: ProblemDetails | undefined;
}

/** `isOverdue`: the time for all tries is over. */
export type Try = Answer | { readonly error: unknown; readonly isOverdue: boolean };

/** Methods that may be sent again by their own meaning (RFC 9110, section 9.2.2). */
const IDEMPOTENT = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

export function isIdempotent(method: string): boolean {
  return IDEMPOTENT.includes(method);
}

/** How long to wait before the next try, after so many; undefined if there should be none. */
export function pauseAfter(tried: Try, tries: number, settings: Settings): number | undefined {
  const { firstPauseMs, maxPauseMs, maxRetryAfterMs, random, clock } = settings;
  const jitterMs = random() * Math.min(maxPauseMs, firstPauseMs * 2 ** (tries - 1));
  if ("error" in tried) return tried.isOverdue ? undefined : jitterMs;
  if (!isRetried(tried, settings)) return undefined;
  const askedMs = retryAfterMs(tried.response.headers, clock) ?? 0;
  // On top of what the server asks for: it asks all of its callers for the same.
  return askedMs > maxRetryAfterMs ? undefined : askedMs + jitterMs;
}

function isRetried({ response, problem }: Answer, { retryStatuses }: Settings): boolean {
  const { status, headers } = response;
  if (status < 400 || NEVER_RETRIED.includes(status) || problem?.retryable === false) return false;
  const advice = headers.get("stripe-should-retry") ?? headers.get("x-should-retry");
  if (advice === "true" || advice === "false") return advice === "true";
  // Of all that 409 can mean, only work that is still going on says when to come back.
  return retryStatuses.includes(status) || (status === 409 && headers.has("retry-after"));
}

/** Stopped before anything was done: not allowed, too early, too often. */
const REFUSED = [401, 403, 425, 429];
/** May come of a request that was, is or will be carried out all the same. */
const IN_DOUBT = [408, 409];

export function meaningOf(tried: Try): Meaning {
  if ("error" in tried) return "unknown";
  const { response, problem } = tried;
  if (REFUSED.includes(response.status)) return "refused";
  if (IN_DOUBT.includes(response.status) || response.status >= 500) return "unknown";
  // The key belongs to another request, of which this answer says nothing.
  return problem?.code === "conflict" ? "unknown" : "final";
}
