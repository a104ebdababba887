/**
 * The interceptor that is the layer on Nest. Nest creates one for each module that uses its class, so its parameters are
 * providers of `IdempotencyModule`.
 */
import { type CallHandler, type ExecutionContext, Inject, type NestInterceptor } from "@nestjs/common";
import { type Observable, of } from "rxjs";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { createNestExchanges, type NestRequest } from "./nest-exchange.ts";
import { muteResponse, type NestResponse, runToEnd } from "./nest-response.ts";
import type { AnyRequest } from "./nest-route-options.ts";
import type { HttpOptions } from "./options.ts";
import { resolveHttpOptions } from "./resolved-options.ts";

/** Nest names a provider that it cannot find by these descriptions. */
export const IDEMPOTENCY_GUARD = Symbol("IDEMPOTENCY_GUARD");
export const IDEMPOTENCY_OPTIONS = Symbol("IDEMPOTENCY_OPTIONS");

/**
 * Protects single controllers and handlers: `@UseInterceptors(IdempotencyInterceptor)` with the options of
 * `IdempotencyModule`, or `@UseInterceptors(new IdempotencyInterceptor(guard, options))` with its own.
 */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #findExchange: ReturnType<typeof createNestExchanges>;

  static {
    Inject(IDEMPOTENCY_GUARD)(IdempotencyInterceptor, undefined, 0);
    Inject(IDEMPOTENCY_OPTIONS)(IdempotencyInterceptor, undefined, 1);
  }

  constructor(guard: Engine, options: HttpOptions<AnyRequest>) {
    resolveHttpOptions(guard, options);
    this.#findExchange = createNestExchanges(guard, options);
  }

  /** Called by Nest around the handler. */
  intercept(
    context: ExecutionContext,
    next: CallHandler,
  ): Observable<unknown> | Promise<Observable<unknown>> {
    if (context.getType() !== "http") return next.handle();
    const http = context.switchToHttp();
    const request = http.getRequest<NestRequest>();
    const response = http.getResponse<NestResponse>();
    const serve = this.#findExchange(context, response);
    // Another interceptor of ours, further out, may already be handling this request.
    if (serve === undefined || request.idempotency !== undefined) return next.handle();
    return new Promise((resolve, reject) => {
      let isStarted = false;
      const start = (attempt: HttpAttempt | undefined): Promise<void> | undefined => {
        isStarted = true;
        request.idempotency = attempt;
        const handled = next.handle();
        const running = attempt === undefined || isSse(context) ? undefined : runToEnd(handled, response);
        resolve(running?.result ?? handled);
        return running?.over;
      };
      const onServed = () => {
        if (isStarted) return;
        muteResponse(response);
        resolve(of(undefined));
      };
      const onError = (error: unknown) => {
        if (isStarted) http.getNext<(error: unknown) => void>()(error);
        else reject(error);
      };
      serve(request, response, start).then(onServed, onError);
    });
  }
}

/** Whether the route sends server-sent events: they go out one by one, and no last one ends the handler. */
function isSse(context: ExecutionContext): boolean {
  const { getMetadata } = Reflect as { getMetadata?: (name: string, target: object) => unknown };
  return getMetadata?.("__sse__", context.getHandler()) === true;
}
