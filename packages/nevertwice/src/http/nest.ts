/**
 * Nest on Express and on Fastify. `imports: [idempotency(guard, { scope })]` protects every route of the app, and
 * `@Idempotent()` changes the options of a controller or a handler. The layer is a global interceptor: guards, and so
 * authentication, run before it; pipes and the handler run after it.
 *
 * Nest parses bodies first, so two bodies with the same parsed value count as the same. With `rawBody: true`, the layer
 * compares their bytes.
 */
import { createParamDecorator, type ExecutionContext } from "@nestjs/common";
import type { NestRequest } from "./nest-exchange.ts";

export { IdempotencyInterceptor } from "./nest-interceptor.ts";
export { IdempotencyModule, idempotency, type NestIdempotency } from "./nest-module.ts";
export { Idempotent, type NestRouteIdempotency as RouteIdempotency } from "./nest-route-options.ts";

/** A handler's parameter: its attempt; undefined if the request has no key. */
export const IdempotencyAttempt: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => context.switchToHttp().getRequest<NestRequest>().idempotency,
);
