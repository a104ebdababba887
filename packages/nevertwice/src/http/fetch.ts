/**
 * Wraps a handler from a web `Request` to a web `Response`: for Next.js route handlers, Bun, Deno, Workers and every
 * framework that uses these types.
 */
import type { Engine } from "../core/engine.ts";
import { createExchange } from "./exchange.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { attemptFor, rememberAttempt } from "./http-attempt.ts";
import type { HttpOptions } from "./options.ts";
import { webRequest } from "./web-request.ts";
import { type HeldResponse, holdBack, toResponse, withHeaders } from "./web-response.ts";

/** The attempt of the handler that received this request object; undefined if the request has no key. */
export function attemptOf(request: Request): HttpAttempt | undefined {
  return attemptFor(request);
}

/**
 * Wraps a handler of `Request` and `Response`: a request with a key runs once, and a duplicate gets the stored response. The
 * handler receives the same request object and arguments, and can read the body as usual.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { withIdempotency } from "nevertwice/http/fetch";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const scope = (request: Request) => request.headers.get("x-customer") ?? undefined;
 * export const POST = withIdempotency(guard, { scope }, () => Response.json({ id: "ch_1" }, { status: 201 }));
 * ```
 */
export function withIdempotency<R extends Request, Rest extends readonly unknown[]>(
  guard: Engine,
  options: HttpOptions<R>,
  handler: (request: R, ...rest: Rest) => Response | PromiseLike<Response>,
): (request: R, ...rest: Rest) => Promise<Response> {
  const exchange = createExchange(guard, options);
  return async function idempotent(request, ...rest) {
    let held: HeldResponse | undefined;
    try {
      const answer = await exchange.handle(webRequest(request, rest), async (attempt, added) => {
        rememberAttempt(request, attempt);
        const response = withHeaders(await handler(request, ...rest), added);
        held = await holdBack(request, response, exchange);
        return held.known;
      });
      switch (answer.kind) {
        case "pass":
          return withHeaders(await handler(request, ...rest), answer.added);
        case "held":
          return withHeaders((held as HeldResponse).release(), answer.added);
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
