/**
 * `Request → Response`, once: for Next.js route handlers, Bun, Deno, Workers and every framework that speaks the web's
 * own types.
 */
import type { Engine } from "../core/engine.ts";
import { attemptFor, handAttempt } from "./attempt-of.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createExchange } from "./handle.ts";
import type { HttpOptions } from "./options.ts";
import { webRequest } from "./web-request.ts";
import { type HeldResponse, holdBack, toResponse, withHeaders } from "./web-response.ts";

/** The attempt that the handler was called for with this very request; undefined if the request has no key. */
export function attemptOf(request: Request): HttpAttempt | undefined {
  return attemptFor(request);
}

/** The handler is given the very request and arguments that come in, and reads the body as ever. */
export function withIdempotency<R extends Request, Rest extends readonly unknown[]>(
  guard: Engine,
  options: HttpOptions<R>,
  handler: (request: R, ...rest: Rest) => Response | PromiseLike<Response>,
): (request: R, ...rest: Rest) => Promise<Response> {
  const exchange = createExchange(guard, options);
  return async function idempotent(request, ...rest) {
    let held: HeldResponse | undefined;
    try {
      const answer = await exchange.handle(webRequest(request), async (attempt, added) => {
        handAttempt(request, attempt);
        const response = withHeaders(await handler(request, ...rest), added);
        held = await holdBack(request, response, exchange);
        return held.known;
      });
      switch (answer.kind) {
        case "pass":
          return withHeaders(await handler(request, ...rest), answer.added);
        case "held":
          return (held as HeldResponse).release();
        case "reply":
          held?.discard();
          return toResponse(answer);
      }
    } catch (error) {
      held?.discard();
      throw error;
    }
  };
}
