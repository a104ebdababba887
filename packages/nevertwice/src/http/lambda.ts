/** Wraps AWS Lambda handlers behind API Gateway, a function URL or a load balancer. */
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { createExchange } from "./exchange.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { attemptFor, rememberAttempt } from "./http-attempt.ts";
import type { HeaderLine } from "./http-message.ts";
import {
  type LambdaEvent,
  type LambdaReply,
  type LambdaResult,
  lambdaRequest,
  toHttpResponse,
  toLambdaReply,
  toLambdaResult,
  withLines,
} from "./lambda-event.ts";
import type { HttpOptions } from "./options.ts";

export type { LambdaEvent, LambdaReply } from "./lambda-event.ts";

/** The attempt of the handler that received this event object; undefined if the request has no key. */
export function attemptOf(event: LambdaEvent): HttpAttempt | undefined {
  return attemptFor(event);
}

/** A shorter lease could not be renewed in time. */
const MIN_LEASE_MS = 1_000;

/**
 * Wraps the handler of a function, which must return a promise: a request with a key runs once. The lease is at most the remaining time that the first call reports, so a
 * function that is killed holds its key no longer than that.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/lambda";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() }); // in production: dynamodbStore
 * const once = idempotency(guard, { scope: (event) => event.headers?.["x-customer"] });
 * export const handler = once(async () => ({ statusCode: 201, body: JSON.stringify({ id: "ch_1" }) }));
 * ```
 */
export function idempotency<Base extends LambdaEvent = LambdaEvent>(
  guard: Engine,
  options: HttpOptions<Base>,
): <Event extends Base, Rest extends readonly unknown[], Result>(
  handler: (event: Event, ...rest: Rest) => Result,
) => (event: Event, ...rest: Rest) => Promise<Awaited<Result> | LambdaReply> {
  let exchange = createExchange(guard, options);
  let isLimited = false;

  /** Read at the first call only: a function has the same time limit at every call. */
  function limitLease(context: unknown): void {
    const remainingMs = (context as Partial<LambdaContext> | undefined)?.getRemainingTimeInMillis?.();
    if (isLimited || remainingMs === undefined) return;
    isLimited = true;
    const leaseMs = Math.max(MIN_LEASE_MS, Math.ceil(remainingMs));
    if (leaseMs < (options.leaseMs ?? guard.policy.leaseMs))
      exchange = createExchange(guard, { ...options, leaseMs });
  }

  return <Event extends Base, Rest extends readonly unknown[], Result>(
    handler: (event: Event, ...rest: Rest) => Result,
  ) => {
    if (handler.length > 2) throw callbackUnsupported();
    return async function idempotent(event: Event, ...rest: Rest): Promise<Awaited<Result> | LambdaReply> {
      limitLease(rest[0]);
      let held: { readonly returned: unknown; readonly result: LambdaResult } | undefined;
      let lines: readonly HeaderLine[] = [];
      const answer = await exchange.handle(lambdaRequest(event), async (attempt, added) => {
        rememberAttempt(event, attempt);
        const returned = await handler(event, ...rest);
        const result = toLambdaResult(returned, event);
        held = { returned, result };
        lines = added;
        return toHttpResponse(result);
      });
      if (answer.kind === "reply") return toLambdaReply(answer, event);
      const { returned, result } = held ?? { returned: await handler(event, ...rest), result: undefined };
      const all = [...lines, ...answer.added];
      if (all.length === 0) return returned as Awaited<Result>;
      return withLines(result ?? toLambdaResult(returned, event), all) as Awaited<Result>;
    };
  };
}

interface LambdaContext {
  getRemainingTimeInMillis(): number;
}

function callbackUnsupported(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "the handler takes a callback, whose result cannot be awaited; return a promise instead.",
  );
}
