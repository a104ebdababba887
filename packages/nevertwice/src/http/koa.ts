/**
 * Koa middleware for Koa 3 and 2. Koa responds after all middleware has returned. The layer therefore holds the response
 * back until then, wherever it is mounted.
 */
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { type KoaContext, keepHeadOnDestroy, respondWithoutClient } from "./koa-response.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest, type ParsedBody } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";
import { matchedRoute } from "./route-path.ts";

export type { KoaContext } from "./koa-response.ts";

/** Accepted wherever Koa takes middleware. Only the options know the further members of the context. */
type KoaMiddleware = (ctx: KoaContext, next: () => Promise<unknown>) => Promise<void>;

export type { KoaMiddleware as Middleware };

/**
 * Koa middleware: a request with a key runs once, and a duplicate gets the stored response.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import Koa from "koa";
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/koa";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * const app = new Koa();
 * app.use(idempotency(guard, { scope: (context) => context.get("x-customer") }));
 * app.use((context) => {
 *   context.status = 201;
 *   context.body = { id: "ch_1" };
 * });
 * app.listen(3000);
 * ```
 */
export function idempotency<Context extends KoaContext = KoaContext>(
  guard: Engine,
  options: HttpOptions<Context>,
): KoaMiddleware {
  const { serve } = createNodeExchange(guard, options);
  return function idempotent(ctx, next) {
    // The layer is also mounted further out, on the app for example, and is already handling this request.
    if (ctx.state.idempotency !== undefined) return next().then(() => {});
    const request = new NodeRequest(ctx as Context, ctx.req, {
      target: ctx.originalUrl,
      route: matchedRoute(ctx._matchedRoute, ctx.path),
      parsed: ctx.request as ParsedBody,
    });
    return new Promise((resolve, reject) => {
      let isStarted = false;
      // An error of the handler goes up to Koa, which responds to it on the same (held) response.
      const start = (attempt: HttpAttempt | undefined) => {
        isStarted = true;
        if (attempt === undefined) {
          next().then(() => resolve(), reject);
          return;
        }
        ctx.state.idempotency = attempt;
        respondWithoutClient(ctx);
        next().then(() => {
          keepHeadOnDestroy(ctx);
          resolve();
        }, reject);
      };
      serve(request, ctx.res, start).then(() => {
        if (isStarted) return;
        ctx.respond = false;
        resolve();
      }, reject);
    });
  };
}
