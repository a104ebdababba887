/** How each route of a Fastify instance is served: with the options of the plugin, changed by those of the route. */
import type { FastifyRequest } from "fastify";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { createFastifyExchange, type ServeFastify } from "./fastify-exchange.ts";
import type { HttpOptions } from "./options.ts";
import { resolveHttpOptions } from "./resolved-options.ts";

/** The value of a route's `config.idempotency`: options that differ from the plugin's, or `false` for no protection. */
export type FastifyRouteIdempotency = Partial<HttpOptions<FastifyRequest>> | false;

/** Serves the requests of a route; undefined if the route is not protected. */
export type RouteServer = { readonly serve: ServeFastify; readonly maxBodyBytes: number } | undefined;

/**
 * Routes with the same options share one server. It is created when the route is declared, so invalid options fail then.
 * Throws `options-invalid`.
 */
export function createRouteServers(
  guard: Engine,
  options: HttpOptions<FastifyRequest>,
): (given: FastifyRouteIdempotency | undefined) => RouteServer {
  const create = (merged: HttpOptions<FastifyRequest>): RouteServer => ({
    serve: createFastifyExchange(guard, merged),
    maxBodyBytes: resolveHttpOptions(guard, merged).maxBodyBytes,
  });
  const common = create(options);
  const byOptions = new WeakMap<object, RouteServer>();

  return (given) => {
    if (given === undefined) return common;
    if (given === false) return undefined;
    if (typeof given !== "object") {
      throw new NevertwiceError(
        "options-invalid",
        "config.idempotency must be an object of options, or false.",
      );
    }
    const known = byOptions.get(given);
    if (known !== undefined) return known;
    const created = create({ ...options, ...given });
    byOptions.set(given, created);
    return created;
  };
}
