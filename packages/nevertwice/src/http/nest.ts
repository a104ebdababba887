/**
 * Nest, on Express and on Fastify. `imports: [idempotency(guard, { scope })]` holds for every route of the app;
 * `@Idempotent()` says what a controller or a handler wants otherwise. It is a global interceptor: guards come before
 * it, so whatever authenticates in them has done so; pipes and the handler come after it.
 *
 * Nest parses bodies first, and two that parse alike count as the same. With `rawBody: true` their bytes count.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type CallHandler,
  createParamDecorator,
  type DynamicModule,
  type ExecutionContext,
  type NestInterceptor,
} from "@nestjs/common";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Observable, of } from "rxjs";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createFastifyExchange, type Start } from "./fastify-exchange.ts";
import { carriedOut, isFastify, mute, type NestResponse } from "./nest-answer.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest } from "./node-request.ts";
import { checkHttpOptions, type HttpOptions } from "./options.ts";
import { settingsOf } from "./settings.ts";

// biome-ignore lint/suspicious/noExplicitAny: what a request is depends on the platform; whoever knows, says so.
type AnyRequest = any;

type NestRequest = (IncomingMessage | FastifyRequest) & { idempotency?: HttpAttempt | undefined };

/** What a controller or a handler says: what it wants otherwise than the app, or that it takes no part. */
export type RouteIdempotency<Req = AnyRequest> = Partial<HttpOptions<Req>> | false;

/** By controller, and by handler. */
const said = new WeakMap<object, RouteIdempotency>();

/** On a handler it has the last word, on a controller the last but one. */
export function Idempotent<Req = AnyRequest>(
  options: RouteIdempotency<Req> = {},
): ClassDecorator & MethodDecorator {
  if (options !== false) checkHttpOptions({ scope: "anyone", ...options });
  return (target: object, _name?: unknown, method?: { readonly value?: unknown }) => {
    said.set((method?.value as object | undefined) ?? target, options);
  };
}

/** A parameter of a handler: the attempt that it is called for; undefined if the request has no key. */
export const IdempotencyAttempt: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => context.switchToHttp().getRequest<NestRequest>().idempotency,
);

/** Serves one request on the platform that the app runs on. */
type Serving = (request: NestRequest, response: NestResponse, start: Start) => Promise<unknown>;

/** The interceptor itself: `@UseInterceptors(new IdempotencyInterceptor(guard, options))` is for some routes alone. */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #guard: Engine;
  readonly #options: HttpOptions<AnyRequest>;
  /** By handler and controller; undefined for those that take no part. */
  readonly #servings = new WeakMap<object, Map<object, Serving | undefined>>();

  constructor(guard: Engine, options: HttpOptions<AnyRequest>) {
    settingsOf(guard, options);
    this.#guard = guard;
    this.#options = options;
  }

  intercept(
    context: ExecutionContext,
    next: CallHandler,
  ): Observable<unknown> | Promise<Observable<unknown>> {
    if (context.getType() !== "http") return next.handle();
    const http = context.switchToHttp();
    const request = http.getRequest<NestRequest>();
    const response = http.getResponse<NestResponse>();
    const serve = this.#servingOf(context, response);
    // Another one around this one may be at it already.
    if (serve === undefined || request.idempotency !== undefined) return next.handle();
    return new Promise((resolve, reject) => {
      let isStarted = false;
      const start = (attempt: HttpAttempt | undefined): Promise<void> | undefined => {
        isStarted = true;
        request.idempotency = attempt;
        const handled = next.handle();
        const carried = attempt === undefined || isSse(context) ? undefined : carriedOut(handled, response);
        resolve(carried?.result ?? handled);
        return carried?.over;
      };
      const answered = () => {
        if (isStarted) return;
        mute(response);
        resolve(of(undefined));
      };
      const failed = (error: unknown) => {
        if (isStarted) http.getNext<(error: unknown) => void>()(error);
        else reject(error);
      };
      serve(request, response, start).then(answered, failed);
    });
  }

  #servingOf(context: ExecutionContext, response: NestResponse): Serving | undefined {
    const [handler, controller] = [context.getHandler(), context.getClass()];
    const known = this.#servings.get(handler) ?? new Map<object, Serving | undefined>();
    if (known.has(controller)) return known.get(controller);
    const options = optionsOf(this.#options, controller, handler);
    const made = options === undefined ? undefined : serving(this.#guard, options, response);
    this.#servings.set(handler, known.set(controller, made));
    return made;
  }
}

/** What the handler says goes before what its controller says, and that before the app; undefined for no part. */
function optionsOf(
  options: HttpOptions<AnyRequest>,
  controller: object,
  handler: object,
): HttpOptions<AnyRequest> | undefined {
  let ofController: RouteIdempotency | undefined;
  for (let type: object | null = controller; type !== null; type = Object.getPrototypeOf(type)) {
    ofController ??= said.get(type);
  }
  const ofHandler = said.get(handler);
  if ((ofHandler ?? ofController) === false) return undefined;
  return { ...options, ...(ofController || {}), ...(ofHandler || {}) };
}

function serving(guard: Engine, options: HttpOptions<AnyRequest>, response: NestResponse): Serving {
  if (isFastify(response)) {
    const serve = createFastifyExchange(guard, options);
    return (request, reply, start) => {
      const { rawBody } = request as { rawBody?: unknown };
      const bytes = rawBody instanceof Uint8Array ? rawBody : undefined;
      return serve({ request: request as FastifyRequest, reply: reply as FastifyReply, bytes }, start);
    };
  }
  const { serve } = createNodeExchange<IncomingMessage>(guard, options);
  return (request, res, start) => {
    const incoming = request as IncomingMessage;
    return serve(new NodeRequest(incoming, incoming), res as ServerResponse, start);
  };
}

/** Events go out one by one; there is no last one to wait for. */
function isSse(context: ExecutionContext): boolean {
  const { getMetadata } = Reflect as { getMetadata?: (name: string, target: object) => unknown };
  return getMetadata?.("__sse__", context.getHandler()) === true;
}

class IdempotencyModule {}

/** For every route whose method is among `methods`, unless `@Idempotent()` says otherwise. */
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
