/**
 * A Fastify plugin. It holds for every route of the instance that it is registered on, and below. It runs after all
 * hooks before the handler, so that whatever authenticates in them has done so. Await its registration before you
 * declare routes: before those declared earlier it runs too, but only after the hooks of whole instances, and by their
 * parsed bodies.
 */
import type {
  FastifyPluginCallback,
  FastifyReply,
  FastifyRequest,
  preHandlerHookHandler,
  preParsingHookHandler,
  RouteOptions,
} from "fastify";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { BodyTap } from "./body-tap.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createFastifyExchange, type Serve } from "./fastify-exchange.ts";
import type { HttpOptions } from "./options.ts";
import { settingsOf } from "./settings.ts";

/** What a route says in `config.idempotency`: what it wants otherwise than the plugin, or that it takes no part. */
export type RouteIdempotency = Partial<HttpOptions<FastifyRequest>> | false;

declare module "fastify" {
  interface FastifyRequest {
    /** What the handler was called for; undefined if the request has no key. */
    idempotency: HttpAttempt | undefined;
  }

  interface FastifyContextConfig {
    idempotency?: RouteIdempotency;
  }
}

/** How a route is served; undefined if it takes no part. */
type Served = { readonly serve: Serve; readonly maxBodyBytes: number } | undefined;

/** Where a route that was declared after us says how it is served. */
const ROUTE = Symbol("nevertwice.route");
/** Where a request of such a route keeps what passes of its body; of any, that it is carried out. */
const TAP = Symbol("nevertwice.tap");

interface Route {
  served: Served;
}
type Config = FastifyRequest["routeOptions"]["config"] & { readonly [ROUTE]?: Route };
type Tapped = FastifyRequest & { [TAP]?: BodyTap | "none" | "carried out" };
type Done = (error?: Error) => void;

export function idempotency(guard: Engine, options: HttpOptions<FastifyRequest>): FastifyPluginCallback {
  const servedOf = createServedOf(guard, options);

  const plugin: FastifyPluginCallback = (app, _none, registered) => {
    if (!app.hasRequestDecorator("idempotency")) app.decorateRequest("idempotency", undefined);
    app.addHook("onRoute", (declared) => {
      const config = (declared.config ?? {}) as Config;
      const served = servedOf(config.idempotency);
      const { [ROUTE]: known } = config;
      // Where another registration is around this one, the nearer one serves.
      if (known !== undefined) known.served = served;
      else hook(declared, { served });
    });
    app.addHook("preHandler", (request: Tapped, reply, done) => {
      if (request[TAP] !== undefined || request.is404) done();
      else carryOut(servedOf(request.routeOptions.config.idempotency), request, reply, done);
    });
    registered();
  };

  return Object.assign(plugin, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: "nevertwice",
  });
}

/** First and last before the handler. */
function hook(options: RouteOptions, route: Route): void {
  options.config = { ...options.config, [ROUTE]: route } as Config;
  const tap: preParsingHookHandler = (request: Tapped, _reply, payload, done) => {
    const { served } = route;
    request[TAP] = served && hasBody(request) ? new BodyTap(payload, served.maxBodyBytes) : "none";
    done(null, payload);
  };
  const last: preHandlerHookHandler = (request, reply, done) => carryOut(route.served, request, reply, done);
  options.preParsing = [tap, options.preParsing ?? []].flat();
  options.preHandler = [options.preHandler ?? [], last].flat();
}

function hasBody({ method }: FastifyRequest): boolean {
  return method !== "GET" && method !== "HEAD";
}

function carryOut(served: Served, request: Tapped, reply: FastifyReply, done: Done): void {
  const tap = request[TAP];
  // Another registration around this one may have been first.
  if (served === undefined || tap === "carried out") {
    done();
    return;
  }
  request[TAP] = "carried out";
  const start = (attempt: HttpAttempt | undefined) => {
    request.idempotency = attempt;
    done();
    return undefined;
  };
  const bytes = tap instanceof BodyTap ? tap.take() : undefined;
  served.serve({ request, reply, bytes }, start).catch((error: unknown) => {
    // To Fastify nothing thrown is nothing wrong, and the handler would run.
    done((error || new Error("rejected without a reason")) as Error);
  });
}

/** One for each set of options, made when a route is declared: that is when its mistakes are told. */
function createServedOf(guard: Engine, options: HttpOptions<FastifyRequest>) {
  const serving = (own: HttpOptions<FastifyRequest>): Served => ({
    serve: createFastifyExchange(guard, own),
    maxBodyBytes: settingsOf(guard, own).maxBodyBytes,
  });
  const common = serving(options);
  const ofRoutes = new WeakMap<object, Served>();

  return (given: RouteIdempotency | undefined): Served => {
    if (given === undefined) return common;
    if (given === false) return undefined;
    if (typeof given !== "object") {
      throw new NevertwiceError("options-invalid", "config.idempotency must be options, or false.");
    }
    const known = ofRoutes.get(given);
    if (known !== undefined) return known;
    const made = serving({ ...options, ...given });
    ofRoutes.set(given, made);
    return made;
  };
}
