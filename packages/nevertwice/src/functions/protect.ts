/**
 * The guard outside any resilience policy: an operation runs once, however often its policy tries. A duplicate is
 * answered without the policy, and what a fallback answers is never kept as the work's.
 */
import type { Engine } from "../core/engine.ts";
import { isFunction } from "../core/policy.ts";
import type { AnyWork } from "./protect/course.ts";
import { type Letters, meaningOf } from "./protect/dead-letter.ts";
import { type Operation, type Protected, perform } from "./protect/operation.ts";
import {
  type ProtectedWork,
  type Protection,
  type ProtectOptions,
  splitOptions,
  splitProtection,
} from "./protect/options.ts";
import { checkPositions, requestFrom, type WrapOptions } from "./wrap.ts";

export type { DeadLetter, DeadLetters } from "./protect/dead-letter.ts";
export type { Protected, RefusedStatus } from "./protect/operation.ts";
export type {
  FieldOf,
  ProtectedWork,
  Protection,
  ProtectOptions,
  Resilience,
} from "./protect/options.ts";
export { type ReplayOptions, replay } from "./protect/replay.ts";

/** Answers what the work returned, a replay of it, or what a fallback answers; throws what failed, or a `NevertwiceError`. */
export async function protect<
  T,
  Context extends object = Record<string, unknown>,
  Execution = undefined,
  Own = never,
  F = never,
>(
  guard: Pick<Engine, "tryRun">,
  options: ProtectOptions<Context, Execution, Own, F>,
  work: ProtectedWork<T, Execution>,
): Promise<T | Own | F> {
  return toValue(await tryProtect(guard, options, work));
}

/**
 * Like `protect`, but every ending is a value, what the work threw too. Rejects for a request that is itself wrong, and
 * with the reason of the caller's signal.
 */
export async function tryProtect<
  T,
  Context extends object = Record<string, unknown>,
  Execution = undefined,
  Own = never,
  F = never,
>(
  guard: Pick<Engine, "tryRun">,
  options: ProtectOptions<Context, Execution, Own, F>,
  work: ProtectedWork<T, Execution>,
): Promise<Protected<T, Own | F>> {
  const { request, context, args, policy, fallback, deadLetters } = splitOptions(options);
  isFunction("the work", work);
  const operation: Operation = {
    request,
    policy,
    work: work as AnyWork,
    fallback: fallback && ((error) => fallback(error, context)),
    letters: lettersOf(deadLetters, { request, context, args }),
  };
  return perform(guard, operation) as Promise<Protected<T, Own | F>>;
}

export interface ProtectedFunctionOptions<Args extends readonly unknown[], Execution, Own, F>
  extends WrapOptions<Args>,
    Protection<Execution, Own> {
  readonly fallback?: ((error: unknown, ...args: Args) => F | PromiseLike<F>) | undefined;
}

/** A function that is protected: its key comes from its arguments. Options are checked at once. */
export function protectedFunction<
  Args extends readonly unknown[],
  T,
  Execution = undefined,
  Own = never,
  F = never,
>(
  guard: Pick<Engine, "tryRun">,
  work: (...args: Args) => T | PromiseLike<T>,
  options: ProtectedFunctionOptions<Parameters<(...args: Args) => void>, Execution, Own, F>,
): (...args: Args) => Promise<T | Own | F> {
  isFunction("the function to protect", work);
  const { policy, fallback, deadLetters, rest } = splitProtection(options);
  const requestOf = requestFrom(rest as WrapOptions<Args>);
  checkPositions(options.keyFrom, "the function", work);
  return async (...args) => {
    const request = requestOf(args);
    const operation: Operation = {
      request,
      policy,
      work: () => work(...args),
      fallback: fallback && ((error) => fallback(error, ...args)),
      letters: lettersOf(deadLetters, { request, context: undefined, args }),
    };
    return toValue((await perform(guard, operation)) as Protected<T, Own | F>);
  };
}

function lettersOf(
  send: Letters["send"],
  { request, context, args }: Pick<Operation, "request"> & Pick<Letters, "context" | "args">,
): Letters | undefined {
  if (send === undefined) return undefined;
  return { send, previous: undefined, meaning: meaningOf(request.fingerprint), context, args };
}

function toValue<T, F>(answer: Protected<T, F>): T | F {
  if (answer.outcome === "failed" || answer.outcome === "refused") throw answer.error;
  return answer.value;
}
