/** What a deliverer can say about a failure other than "try again later". */

const BRAND = Symbol.for("nevertwice.verdict");

interface FailureVerdict {
  readonly isPermanent: boolean;
  readonly retryAfterMs: number | undefined;
}

/**
 * `throw permanent(cause)`: no later attempt can deliver this message. The relay parks it at once, and its key waits until
 * an operator retries or discards it.
 */
export function permanent(cause: unknown): Error {
  return branded(cause, { isPermanent: true, retryAfterMs: undefined });
}

/** `throw retryAfter(ms, cause)`: the receiver said when to try again. The relay waits that long, up to `retry.capMs`. */
export function retryAfter(ms: number, cause: unknown): Error {
  return branded(cause, { isPermanent: false, retryAfterMs: ms });
}

function branded(cause: unknown, verdict: FailureVerdict): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  return Object.defineProperty(new Error(message, { cause }), BRAND, { value: verdict });
}

export function readVerdict(error: unknown): FailureVerdict {
  const verdict = (error as { readonly [BRAND]?: FailureVerdict } | null | undefined)?.[BRAND];
  return verdict ?? { isPermanent: false, retryAfterMs: undefined };
}
