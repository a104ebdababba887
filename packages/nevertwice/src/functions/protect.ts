/**
 * Puts the guard around any resilience policy: an operation runs once, however often its policy tries. A duplicate does not
 * go through the policy, and the answer of a fallback is never stored as the result of the work.
 */

import { requireGuard } from "../core/argument-checks.ts";
import type { Engine } from "../core/engine.ts";
import { isFunction } from "../core/option-checks.ts";
import { copyFingerprint, type DeadLetterSource } from "./protect/dead-letter.ts";
import { type Protected, type ProtectedOperation, perform } from "./protect/operation.ts";
import {
  type ProtectedWork,
  type Protection,
  type ProtectOptions,
  splitOptions,
  splitProtection,
} from "./protect/options.ts";
import type { AnyWork } from "./protect/policy-run.ts";
import { checkPositions, createRequestBuilder, WRAP_CHECKS, type WrapOptions } from "./wrap.ts";

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

/**
 * Runs a protected operation: the guard outside, then the fallback, then the policy, then the work. Returns what the work
 * returned, a replay of it, or what a fallback returned. Throws the failure, or a `NevertwiceError`.
 * @throws `already-done`, `conflict`, `key-invalid`, `key-missing`, `lease-lost`, `not-kept`, `options-invalid`, `pending`, `unknown`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { protect } from "nevertwice/protect";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const order = { id: "order-17", amount: 4_200 };
 * const receipt = await protect(
 *   guard,
 *   { operation: "charge", key: "id", context: order }, // and policy: one of cockatiel, for retries and timeouts
 *   async (attempt) => ({ paid: order.amount, providerKey: attempt.deriveKey("psp") }),
 * );
 * console.log(receipt.paid);
 * ```
 */
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
 * Like `protect`, but every ending is a value, including what the work threw. Rejects for an invalid request, and with the
 * reason of the caller's signal.
 * @throws `key-invalid`, `key-missing`, `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { tryProtect } from "nevertwice/protect";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const answer = await tryProtect(guard, { operation: "quote", key: () => "quote-7" }, async () => 42);
 * console.log(answer.outcome); // ran
 * ```
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
  requireGuard(guard, "protect(guard, options, work)");
  const { request, context, args, policy, fallback, deadLetters } = splitOptions(options);
  isFunction("the work", work);
  const operation: ProtectedOperation = {
    request,
    policy,
    work: work as AnyWork,
    fallback: fallback && ((error) => fallback(error, context)),
    letters: deadLetterSource(deadLetters, { request, context, args }),
  };
  return perform(guard, operation) as Promise<Protected<T, Own | F>>;
}

/**
 * Options of `protectedFunction`: where the key comes from in the arguments, and what runs inside the guard.
 */
export interface ProtectedFunctionOptions<Args extends readonly unknown[], Execution, Own, F>
  extends WrapOptions<Args>,
    Protection<Execution, Own> {
  /**
   * Called with the error and the arguments after the work has failed; its result is returned instead, and
   * never stored.
   */
  readonly fallback?: ((error: unknown, ...args: Args) => F | PromiseLike<F>) | undefined;
}

/**
 * Returns a protected function whose key comes from its arguments. The options are checked immediately.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { protectedFunction } from "nevertwice/protect";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const charge = protectedFunction(
 *   guard,
 *   async (order: { id: string; amount: number }) => `paid ${order.amount}`,
 *   { operation: "charge", key: (order) => order.id },
 * );
 * console.log(await charge({ id: "order-17", amount: 4_200 }));
 * ```
 */
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
  requireGuard(guard, "protectedFunction(guard, work, options)");
  isFunction("the function to protect", work);
  const { policy, fallback, deadLetters, rest } = splitProtection(options, WRAP_CHECKS);
  const toRequest = createRequestBuilder(rest as WrapOptions<Args>);
  checkPositions(options.keyFrom, "the function", work);
  return async (...args) => {
    const request = toRequest(args);
    const operation: ProtectedOperation = {
      request,
      policy,
      work: () => work(...args),
      fallback: fallback && ((error) => fallback(error, ...args)),
      letters: deadLetterSource(deadLetters, { request, context: undefined, args }),
    };
    return toValue((await perform(guard, operation)) as Protected<T, Own | F>);
  };
}

function deadLetterSource(
  send: DeadLetterSource["send"],
  {
    request,
    context,
    args,
  }: Pick<ProtectedOperation, "request"> & Pick<DeadLetterSource, "context" | "args">,
): DeadLetterSource | undefined {
  if (send === undefined) return undefined;
  return { send, previous: undefined, meaning: copyFingerprint(request.fingerprint), context, args };
}

function toValue<T, F>(answer: Protected<T, F>): T | F {
  if (answer.outcome === "failed" || answer.outcome === "refused") throw answer.error;
  return answer.value;
}
