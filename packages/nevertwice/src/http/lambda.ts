/** AWS Lambda behind API Gateway, a function URL or a load balancer: the handler runs once per key. */
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { attemptFor, handAttempt } from "./attempt-of.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createExchange } from "./handle.ts";
import {
  type LambdaEvent,
  type LambdaReply,
  lambdaRequest,
  responseOf,
  resultOf,
  toResult,
  withLines,
} from "./lambda-event.ts";
import type { HttpOptions } from "./options.ts";

export type { LambdaEvent, LambdaReply } from "./lambda-event.ts";

/** The attempt that the handler was called for with this very event; undefined if the request has no key. */
export function attemptOf(event: LambdaEvent): HttpAttempt | undefined {
  return attemptFor(event);
}

/** A shorter lease could not be renewed in time. */
const LEAST_LEASE_MS = 1_000;

/**
 * Wraps handlers that answer with a promise. No lease is longer than the function may run, as its first call is told:
 * one that is killed holds its key no longer than that.
 */
export function idempotency<Base extends LambdaEvent = LambdaEvent>(
  guard: Engine,
  options: HttpOptions<Base>,
): <Event extends Base, Rest extends readonly unknown[], Result>(
  handler: (event: Event, ...rest: Rest) => Result,
) => (event: Event, ...rest: Rest) => Promise<Awaited<Result> | LambdaReply> {
  let exchange = createExchange(guard, options);
  let isBounded = false;

  /** How long a function may run is the same at every call. */
  function boundBy(context: unknown): void {
    const remainingMs = (context as Partial<LambdaContext> | undefined)?.getRemainingTimeInMillis?.();
    if (isBounded || remainingMs === undefined) return;
    isBounded = true;
    const leaseMs = Math.max(LEAST_LEASE_MS, Math.ceil(remainingMs));
    if (leaseMs < (options.leaseMs ?? guard.policy.leaseMs))
      exchange = createExchange(guard, { ...options, leaseMs });
  }

  return <Event extends Base, Rest extends readonly unknown[], Result>(
    handler: (event: Event, ...rest: Rest) => Result,
  ) => {
    if (handler.length > 2) throw withCallback();
    return async function idempotent(event: Event, ...rest: Rest): Promise<Awaited<Result> | LambdaReply> {
      boundBy(rest[0]);
      let held: unknown;
      const answer = await exchange.handle(lambdaRequest(event), async (attempt, added) => {
        handAttempt(event, attempt);
        const returned = await handler(event, ...rest);
        const result = resultOf(returned, event);
        held = added.length === 0 ? returned : withLines(result, added);
        return responseOf(result);
      });
      if (answer.kind === "reply") return toResult(answer, event);
      if (answer.kind === "held") return held as Awaited<Result>;
      const returned = await handler(event, ...rest);
      if (answer.added.length === 0) return returned;
      return withLines(resultOf(returned, event), answer.added) as Awaited<Result>;
    };
  };
}

interface LambdaContext {
  getRemainingTimeInMillis(): number;
}

function withCallback(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "the handler takes a callback, and what it hands that cannot be awaited; answer with a promise.",
  );
}
