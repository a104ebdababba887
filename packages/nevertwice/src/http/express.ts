/**
 * Express middleware, for Express 5 and 4: for a whole app, a router, or a single route. It may stand before or after
 * `express.json()`; before parsers of uploads, and after whatever authenticates.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";

declare global {
  // biome-ignore lint/style/noNamespace: the name that the types of Express are extended under.
  namespace Express {
    interface Request {
      /** The attempt that the handler runs for; undefined if the request has no key. */
      idempotency?: HttpAttempt | undefined;
    }
  }
}

/**
 * What the functions of the options are handed, unless they name a type of their own: `scope: (req: Request) => …`.
 * Whatever an app adds to `Express.Request`, such as `user`, is among it.
 */
export type ExpressRequest = IncomingMessage &
  Express.Request & {
    readonly params: Readonly<Record<string, string | string[]>>;
    readonly query: unknown;
    readonly body?: unknown;
    readonly originalUrl: string;
    get(name: string): string | undefined;
  };

/** Fits in wherever Express takes middleware: what more its requests have than node's is known to the options alone. */
export type Middleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void;

export function idempotency<Req extends IncomingMessage = ExpressRequest>(
  guard: Engine,
  options: HttpOptions<Req>,
): Middleware {
  const { serve } = createNodeExchange(guard, options);
  return function idempotent(req, res, next) {
    // Mounted on the app and on the route: the outer one is at it already.
    if ((req as IncomingMessage & Express.Request).idempotency !== undefined) {
      next();
      return;
    }
    const start = (attempt: HttpAttempt | undefined) => {
      if (attempt !== undefined) (req as IncomingMessage & Express.Request).idempotency = attempt;
      next();
    };
    serve(new NodeRequest(req as Req, req), res, start).catch((error: unknown) => {
      // To Express nothing thrown is nothing wrong, and the handler would run.
      next(error || new Error("rejected without a reason"));
    });
  };
}
