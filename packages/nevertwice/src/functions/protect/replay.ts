/**
 * Trying a dead letter again. The try has a record of its own, so that one entry is replayed once however many ask; inside
 * it the operation runs under its own identity, so that work that was done meanwhile is replayed and not repeated.
 */
import type { Engine } from "../../core/engine.ts";
import { compositeKey } from "../../core/key.ts";
import { isFunction, type PolicyOptions } from "../../core/policy.ts";
import type { RunRequest } from "../../core/request.ts";
import type { AnyWork } from "./course.ts";
import { type DeadLetter, meaningOf, requestOf } from "./dead-letter.ts";
import { type Operation, type Protected, perform } from "./operation.ts";
import { type ProtectedWork, type Protection, splitProtection } from "./options.ts";

/** Policies are those of the operation; its identity comes from the entry. */
export interface ReplayOptions<Execution, Own, F> extends PolicyOptions, Protection<Execution, Own> {
  readonly shorten?: RunRequest["shorten"];
  readonly signal?: AbortSignal | undefined;
  readonly fallback?: ((error: unknown, context: unknown) => F | PromiseLike<F>) | undefined;
}

/**
 * What became of the operation: `replayed` if it is done already, `refused` as `pending` if it is being done. A failure
 * carries the `entry` for the next try. Whoever replays the same entry too gets the same answer.
 */
export async function replay<T, Execution = undefined, Own = never, F = never>(
  guard: Pick<Engine, "tryRun">,
  entry: DeadLetter,
  work: ProtectedWork<T, Execution>,
  options: ReplayOptions<Execution, Own, F> = {},
): Promise<Protected<T, Own | F>> {
  const request = requestOf(entry);
  isFunction("the work", work);
  const { policy, fallback, deadLetters, rest } = splitProtection(options);
  const operation: Operation = {
    request: { onCompleted: "replay", ...rest, ...request },
    policy,
    work: work as AnyWork,
    fallback: fallback && ((error) => fallback(error, entry.context)),
    letters: {
      send: deadLetters,
      previous: entry,
      meaning: meaningOf(request.fingerprint),
      context: undefined,
      args: undefined,
    },
  };
  const { onPending, waitMs, signal } = options;
  const answer = await once(guard, entry, { onPending, waitMs, signal }, () => perform(guard, operation));
  return answer as Protected<T, Own | F>;
}

/** The operation's answer, kept under the entry and the number of its replays. */
async function once(
  guard: Pick<Engine, "tryRun">,
  entry: DeadLetter,
  waiting: Pick<RunRequest, "onPending" | "waitMs" | "signal">,
  tryOnce: () => Promise<Protected<unknown, unknown>>,
): Promise<Protected<unknown, unknown>> {
  let own: Protected<unknown, unknown> | undefined;
  const answer = await perform(guard, {
    request: {
      operation: "nevertwice:dead-letter",
      // Whoever erases a scope erases this too.
      scope: entry.scope,
      key: compositeKey(entry.id, entry.replays),
      onCompleted: "replay",
      // Cut off in the middle, it may be tried again: the operation inside has a record of its own.
      onLapsed: "takeover",
      shorten: withoutValues,
      ...waiting,
    },
    policy: undefined,
    async work(attempt) {
      own = await tryOnce().catch((error: unknown) => {
        throw attempt.notDone(error);
      });
      // Nothing was tried, so this entry is not used up.
      if (own.outcome === "refused") throw attempt.notDone(own.error);
      return own;
    },
    fallback: undefined,
    letters: undefined,
  });
  if (own !== undefined) return own;
  if (answer.outcome === "failed") throw answer.error;
  return answer.outcome === "replayed" ? toldAgain(answer) : answer;
}

/** What another replay of this entry answered. */
function toldAgain(kept: Protected<unknown> & { readonly outcome: "replayed" }): Protected<unknown, unknown> {
  const { attempts, durationMs } = kept;
  const told = kept.value as Protected<unknown, unknown>;
  if (told.outcome === "failed" || told.outcome === "fallback")
    return { ...told, attempts, durationMs, isReplayed: true };
  return { ...kept, value: (told as { readonly value: unknown }).value };
}

/** An answer that cannot be kept whole: of a failure, the entry for the next try is what matters. */
function withoutValues(answer: Protected<unknown, unknown>): unknown {
  if (answer.outcome !== "failed" && answer.outcome !== "fallback")
    throw new TypeError("a value cannot be said in fewer words");
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
