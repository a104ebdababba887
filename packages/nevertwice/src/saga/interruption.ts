/** Errors that do not say that a step failed: nothing is undone for them. */
import { isNevertwiceError } from "../core/errors.ts";

const MAX_CAUSES = 8;

/**
 * Whether the error, or a cause of it, says that the same call can still succeed (`pending`, `unavailable` and others), or
 * that its outcome is `unknown`. A step that uses another guard gets such errors.
 */
export function isInterruption(error: unknown): boolean {
  let cause = error;
  for (let depth = 0; depth <= MAX_CAUSES && typeof cause === "object" && cause !== null; depth++) {
    if (isNevertwiceError(cause) && (cause.retryable || cause.code === "unknown")) return true;
    cause = (cause as { readonly cause?: unknown }).cause;
  }
  return false;
}
