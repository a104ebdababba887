/**
 * Nest on Express and on Fastify. `imports: [idempotency(guard, { scope })]` protects every route of the app, and
 * `@Idempotent()` changes the options of a controller or a handler. The layer is a global interceptor: guards, and so
 * authentication, run before it; pipes and the handler run after it.
 *
 * Nest parses bodies first, so two bodies with the same parsed value count as the same. With `rawBody: true`, the layer
 * compares their bytes.
 */
import {
  type CallHandler,
  createParamDecorator,
  type DynamicModule,
  type ExecutionContext,
  type NestInterceptor,
} from "@nestjs/common";
import { type Observable, of } from "rxjs";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { createNestExchanges, type NestRequest } from "./nest-exchange.ts";
import { muteResponse, type NestResponse, runToEnd } from "./nest-response.ts";
import type { AnyRequest } from "./nest-route-options.ts";
import type { HttpOptions } from "./options.ts";
import { resolveHttpOptions } from "./resolved-options.ts";

export { Idempotent, type NestRouteIdempotency as RouteIdempotency } from "./nest-route-options.ts";

/** A handler's parameter: its attempt; undefined if the request has no key. */
export const IdempotencyAttempt: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => context.switchToHttp().getRequest<NestRequest>().idempotency,
);

/** The interceptor itself. `@UseInterceptors(new IdempotencyInterceptor(guard, options))` protects single routes. */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #findExchange: ReturnType<typeof createNestExchanges>;

  constructor(guard: Engine, options: HttpOptions<AnyRequest>) {
    resolveHttpOptions(guard, options);
    this.#findExchange = createNestExchanges(guard, options);
  }

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

class IdempotencyModule {}

/** Protects every route whose method is among `methods`, unless `@Idempotent()` says otherwise. */
export function idempotency<Req = AnyRequest>(guard: Engine, options: HttpOptions<Req>): DynamicModule {
  const interceptor = new IdempotencyInterceptor(guard, options);
  return {
    module: IdempotencyModule,
    providers: [
      // Nest's own name for interceptors of the whole app.
      { provide: "APP_INTERCEPTOR", useValue: interceptor },
      { provide: IdempotencyInterceptor, useValue: interceptor },
    ],
    exports: [IdempotencyInterceptor],
  };
}
