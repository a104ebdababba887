/**
 * A Fastify plugin. It protects every route of the instance that it is registered on, and of the instances inside it. It
 * runs after all other hooks that precede the handler, so authentication in any of them has happened.
 *
 * Await its registration before you declare routes. For routes that were declared earlier, it runs after the
 * instance-wide hooks only, and compares the parsed bodies instead of their bytes.
 */
import type { FastifyPluginCallback, FastifyRequest } from "fastify";
import type { Engine } from "../core/engine.ts";
import { addHooks, handle, isTapped, ROUTE, type RouteConfig } from "./fastify-hooks.ts";
import { createRouteServers, type FastifyRouteIdempotency } from "./fastify-route.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import type { HttpOptions } from "./options.ts";

export type { FastifyRouteIdempotency as RouteIdempotency } from "./fastify-route.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The attempt of the handler; undefined if the request has no key. */
    idempotency: HttpAttempt | undefined;
  }

  interface FastifyContextConfig {
    idempotency?: FastifyRouteIdempotency;
  }
}

/**
 * A Fastify plugin: a request with a key runs once, and a duplicate gets the stored response. A route can
 * have its own options in `config.idempotency`.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import fastify from "fastify";
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/fastify";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * const app = fastify();
 * await app.register(idempotency(guard, { scope: (request) => String(request.headers["x-customer"]) }));
 * app.post("/payments", async (_request, reply) => reply.code(201).send({ id: "ch_1" }));
 * await app.listen({ port: 3000 });
 * ```
 */
export function idempotency(guard: Engine, options: HttpOptions<FastifyRequest>): FastifyPluginCallback {
  const findServer = createRouteServers(guard, options);

  const plugin: FastifyPluginCallback = (app, _none, registered) => {
    if (!app.hasRequestDecorator("idempotency")) app.decorateRequest("idempotency", undefined);
    app.addHook("onRoute", (declared) => {
      const config = (declared.config ?? {}) as RouteConfig;
      const server = findServer(config.idempotency);
      const { [ROUTE]: known } = config;
      // An outer registration has already added the hooks. The inner one serves the route.
      if (known !== undefined) known.server = server;
      else addHooks(declared, { server });
    });
    app.addHook("preHandler", (request, reply, done) => {
      if (isTapped(request) || request.is404) done();
      else handle(findServer(request.routeOptions.config.idempotency), request, reply, done);
    });
    registered();
  };

  return Object.assign(plugin, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: "nevertwice",
  });
}
