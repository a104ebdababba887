/** The hooks of one Fastify route: the first one taps the request's body, the last one runs the exchange. */
import type {
  FastifyReply,
  FastifyRequest,
  preHandlerHookHandler,
  preParsingHookHandler,
  RouteOptions,
} from "fastify";
import { BodyTap } from "./body-tap.ts";
import type { RouteServer } from "./fastify-route.ts";
import type { HttpAttempt } from "./http-attempt.ts";

/** Set in the config of a route that was declared after the registration: how it is served. */
export const ROUTE: unique symbol = Symbol("nevertwice.route");
/** Set on a request: the tap on its body, or that the layer has handled it. */
const TAP = Symbol("nevertwice.tap");

/** Mutable, since an inner registration replaces the server of the outer one. */
export interface HookedRoute {
  server: RouteServer;
}
export type RouteConfig = FastifyRequest["routeOptions"]["config"] & { readonly [ROUTE]?: HookedRoute };
type Tapped = FastifyRequest & { [TAP]?: BodyTap | "none" | "handled" };

/** Whether the hooks of the route have run for this request. */
export function isTapped(request: Tapped): boolean {
  return request[TAP] !== undefined;
}

export function addHooks(options: RouteOptions, route: HookedRoute): void {
  options.config = { ...options.config, [ROUTE]: route } as RouteConfig;
  const tap: preParsingHookHandler = (request: Tapped, _reply, payload, done) => {
    const hasBody = request.method !== "GET" && request.method !== "HEAD";
    request[TAP] = route.server && hasBody ? new BodyTap(payload, route.server.maxBodyBytes) : "none";
    done(null, payload);
  };
  const last: preHandlerHookHandler = (request, reply, done) => handle(route.server, request, reply, done);
  options.preParsing = [tap, options.preParsing ?? []].flat();
  options.preHandler = [options.preHandler ?? [], last].flat();
}

export function handle(
  server: RouteServer,
  request: Tapped,
  reply: FastifyReply,
  done: (error?: Error) => void,
): void {
  const tap = request[TAP];
  // An outer registration may have handled the request already.
  if (server === undefined || tap === "handled") {
    done();
    return;
  }
  request[TAP] = "handled";
  const start = (attempt: HttpAttempt | undefined) => {
    request.idempotency = attempt;
    done();
    return undefined;
  };
  const bytes = tap instanceof BodyTap ? tap.take() : undefined;
  server.serve({ request, reply, bytes }, start).catch((error: unknown) => {
    // `done(undefined)` means success to Fastify, and would run the handler.
    done((error || new Error("rejected without a reason")) as Error);
  });
}
