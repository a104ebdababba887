/**
 * Express middleware for Express 5 and 4: for a whole app, a router or a single route. Mount it after authentication and
 * in front of upload parsers. `express.json()` may come before or after it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";
import { expressRoute } from "./route-path.ts";

declare global {
  // biome-ignore lint/style/noNamespace: Express extends its types through this namespace.
  namespace Express {
    interface Request {
      /** The attempt of the handler; undefined if the request has no key. */
      idempotency?: HttpAttempt | undefined;
    }
  }
}

/**
 * The parts of Express's request that are used here: the type that the functions in the options receive, unless they name
 * another (`scope: (req: Request) => …`). It includes what an app adds to `Express.Request`, such as `user`.
 */
export type ExpressRequest = IncomingMessage &
  Express.Request & {
    readonly params: Readonly<Record<string, string | string[]>>;
    readonly query: unknown;
    readonly body?: unknown;
    readonly originalUrl: string;
    get(name: string): string | undefined;
  };

/** Accepted wherever Express takes middleware. Only the options know the Express members of the request. */
type ExpressMiddleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void;

export type { ExpressMiddleware as Middleware };

/**
 * Express middleware: a request with a key runs once, and a duplicate gets the stored response. Mount it
 * before the body parser, or on single routes.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import express from "express";
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/express";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * const app = express();
 * app.use(idempotency(guard, { scope: (request) => request.get("x-customer") }));
 * app.post("/payments", express.json(), (request, response) => {
 *   response.status(201).json({ id: "ch_1", amount: request.body.amount });
 * });
 * app.listen(3000);
 * ```
 */
export function idempotency<Req extends IncomingMessage = ExpressRequest>(
  guard: Engine,
  options: HttpOptions<Req>,
): ExpressMiddleware {
  const { serve } = createNodeExchange(guard, options);
  return function idempotent(req, res, next) {
    // The layer is also mounted further out, on the app for example, and is already handling this request.
    if ((req as IncomingMessage & Express.Request).idempotency !== undefined) {
      next();
      return;
    }
    const start = (attempt: HttpAttempt | undefined) => {
      if (attempt !== undefined) (req as IncomingMessage & Express.Request).idempotency = attempt;
      next();
    };
    serve(new NodeRequest(req as Req, req, { route: expressRoute(req) }), res, start).catch(
      (error: unknown) => {
        // `next(undefined)` means success to Express, and would run the handler.
        next(error || new Error("rejected without a reason"));
      },
    );
  };
}
