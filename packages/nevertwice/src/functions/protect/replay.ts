/**
 * Tries the operation of a dead letter again. The retry has its own record, so that an entry is replayed once even if
 * several processes try. Inside it the operation runs under its original identity, so work that was done in the meantime
 * is replayed and not repeated.
 */

import { requireGuard } from "../../core/argument-checks.ts";
import type { Engine } from "../../core/engine.ts";
import { compositeKey } from "../../core/key.ts";
import { isFunction } from "../../core/option-checks.ts";
import { isPlainObject } from "../../core/plain-object.ts";
import type { PolicyOptions } from "../../core/policy.ts";
import { REQUEST_CHECKS, type RunRequest } from "../../core/request.ts";
import { reserved } from "../../core/reserved.ts";
import { copyFingerprint, type DeadLetter, requestFromLetter } from "./dead-letter.ts";
import { type Protected, type ProtectedOperation, perform } from "./operation.ts";
import { type ProtectedWork, type Protection, splitProtection } from "./options.ts";
import type { AnyWork } from "./policy-run.ts";

/** The policies of the operation. Its identity comes from the entry. */
export interface ReplayOptions<Execution, Own, F> extends PolicyOptions, Protection<Execution, Own> {
  /** Makes a smaller value of one that is too large or cannot be encoded, as in a request. */
  readonly shorten?: RunRequest["shorten"];
  /** Ends the caller's wait for the result. It never ends the work. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with the error and the context of the entry after the work has failed; its result is returned
   * instead, and never stored.
   */
  readonly fallback?: ((error: unknown, context: unknown) => F | PromiseLike<F>) | undefined;
}

/**
 * The result of the operation: `replayed` if it is already done, `refused` with `pending` if it is running. A failure has
 * the `entry` for the next replay. Every replay of the same entry gets the same result.
 * @throws `key-missing`, `options-invalid`
 */
export async function replay<T, Execution = undefined, Own = never, F = never>(
  guard: Pick<Engine, "tryRun">,
  entry: DeadLetter,
  work: ProtectedWork<T, Execution>,
  options: ReplayOptions<Execution, Own, F> = {},
): Promise<Protected<T, Own | F>> {
  requireGuard(guard, "replay(guard, entry, work)");
  const request = requestFromLetter(entry);
  isFunction("the work", work);
  const { policy, fallback, deadLetters, rest } = splitProtection(options, REQUEST_CHECKS);
  const operation: ProtectedOperation = {
    request: { onCompleted: "replay", ...rest, ...request },
    policy,
    work: work as AnyWork,
    fallback: fallback && ((error) => fallback(error, entry.context)),
    letters: {
      send: deadLetters,
      previous: entry,
      meaning: copyFingerprint(request.fingerprint),
      context: undefined,
      args: undefined,
    },
  };
  const { onPending, waitMs, signal } = options;
  const answer = await once(guard, entry, { onPending, waitMs, signal }, () => perform(guard, operation));
  return answer as Protected<T, Own | F>;
}

/** Runs the operation once for this entry and its number of replays, and stores its result. */
async function once(
  guard: Pick<Engine, "tryRun">,
  entry: DeadLetter,
  waiting: Pick<RunRequest, "onPending" | "waitMs" | "signal">,
  tryOnce: () => Promise<Protected<unknown, unknown>>,
): Promise<Protected<unknown, unknown>> {
  let own: Protected<unknown, unknown> | undefined;
  const answer = await perform(guard, {
    request: {
      ...reserved("dead-letter"),
      // The scope of the operation, so that erasing the scope erases this record too.
      scope: entry.scope,
      key: compositeKey(entry.id, entry.replays),
      onCompleted: "replay",
      // A replay that was interrupted may be tried again, since the operation inside has its own record.
      onLapsed: "takeover",
      shorten: withoutValues,
      ...waiting,
    },
    policy: undefined,
    async work(attempt) {
      own = await tryOnce().catch((error: unknown) => {
        throw attempt.notDone(error);
      });
      // Nothing was tried, so this entry can be replayed again.
      if (own.outcome === "refused") throw attempt.notDone(own.error);
      return own;
    },
    fallback: undefined,
    letters: undefined,
  });
  if (own !== undefined) return own;
  if (answer.outcome === "failed") throw answer.error;
  return answer.outcome === "replayed" ? replayedAnswer(answer) : answer;
}

/** The stored result of another replay of this entry. */
function replayedAnswer(
  kept: Protected<unknown> & { readonly outcome: "replayed" },
): Protected<unknown, unknown> {
  const { attempts, durationMs } = kept;
  // An operator or another program recorded this value, so it is returned unchanged.
  if (!isPlainObject(kept.value) || !("outcome" in kept.value)) return kept;
  const stored = kept.value as unknown as Protected<unknown, unknown>;
  if (stored.outcome === "failed" || stored.outcome === "fallback")
    return { ...stored, attempts, durationMs, isReplayed: true };
  return { ...kept, value: (stored as { readonly value: unknown }).value };
}

/** Shortens a result that is too large to store. For a failure, only the entry for the next replay matters. */
function withoutValues(answer: Protected<unknown, unknown>): unknown {
  if (answer.outcome !== "failed" && answer.outcome !== "fallback")
    throw new TypeError("a value cannot be shortened");
  const { entry, isReplayed, attempts, durationMs } = answer;
  return {
    outcome: "failed",
    error: entry?.error,
    entry,
    isReplayed,
    attempts,
    durationMs,
    isFallback: false,
  };
}
