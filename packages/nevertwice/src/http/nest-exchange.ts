/** The exchanges of a Nest app, one for each route, on the platform that the app runs on: Express or Fastify. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ExecutionContext } from "@nestjs/common";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Engine } from "../core/engine.ts";
import { createFastifyExchange, type StartFastifyHandler } from "./fastify-exchange.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { isFastify, type NestResponse } from "./nest-response.ts";
import { type AnyRequest, mergeOptions } from "./nest-route-options.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";
import { expressRoute } from "./route-path.ts";

export type NestRequest = (IncomingMessage | FastifyRequest) & { idempotency?: HttpAttempt | undefined };

export type ServeNest = (
  request: NestRequest,
  response: NestResponse,
  start: StartFastifyHandler,
) => Promise<unknown>;

/** Finds the exchange of a route, and creates it at the route's first request; undefined if the route is not protected. */
export function createNestExchanges(
  guard: Engine,
  appOptions: HttpOptions<AnyRequest>,
): (context: ExecutionContext, response: NestResponse) => ServeNest | undefined {
  /** By platform, since two apps on different ones may share a module; then by handler, then by controller. */
  const onExpress: Exchanges = new WeakMap();
  const onFastify: Exchanges = new WeakMap();
  return (context, response) => {
    const exchanges = isFastify(response) ? onFastify : onExpress;
    const [handler, controller] = [context.getHandler(), context.getClass()];
    const known = exchanges.get(handler) ?? new Map<object, ServeNest | undefined>();
    if (known.has(controller)) return known.get(controller);
    const options = mergeOptions(appOptions, controller, handler);
    const created = options === undefined ? undefined : createNestExchange(guard, options, response);
    exchanges.set(handler, known.set(controller, created));
    return created;
  };
}

type Exchanges = WeakMap<object, Map<object, ServeNest | undefined>>;

/** The type of `response` tells the platform. */
function createNestExchange(
  guard: Engine,
  options: HttpOptions<AnyRequest>,
  response: NestResponse,
): ServeNest {
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
    return serve(
      new NodeRequest(incoming, incoming, { route: expressRoute(incoming) }),
      res as ServerResponse,
      start,
    );
  };
}
