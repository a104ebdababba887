/** Hono middleware, for whole apps and for single routes, on every runtime that Hono runs on. */
import type { Context, Env, MiddlewareHandler } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import type { Engine } from "../core/engine.ts";
import type { HeaderLine, HttpAttempt, HttpRequest, Reply, RequestBody } from "./exchange.ts";
import { createExchange } from "./handle.ts";
import type { HttpOptions } from "./options.ts";
import { isGone, readWebBody } from "./web-request.ts";
import { bodyOf, type HeldResponse, holdBack, toResponse, withHeaders } from "./web-response.ts";

declare module "hono" {
  interface ContextVariableMap {
    /** What the handler was called for; undefined if the request has no key. */
    idempotency: HttpAttempt | undefined;
  }
}

/**
 * Mount it after whatever authenticates. What `app.onError` makes of an error is the answer; headers that middleware
 * outside sets are on replays too.
 */
// biome-ignore lint/suspicious/noExplicitAny: Hono's own default, without which `scope` could read no variable.
export function idempotency<E extends Env = any>(
  guard: Engine,
  options: HttpOptions<Context<E>>,
): MiddlewareHandler<E> {
  const exchange = createExchange(guard, options);
  return async function idempotent(c, next) {
    // Mounted on the app and on the route: the outer one is at it already.
    if (c.get("idempotency") !== undefined) return next();
    let held: HeldResponse | undefined;
    try {
      const answer = await exchange.handle(honoRequest(c), async (attempt, added) => {
        c.set("idempotency", attempt);
        await next();
        held = await holdBack(c.req.raw, withHeaders(c.res, added), exchange);
        return held.known;
      });
      if (answer.kind === "held") replace(c, (held as HeldResponse).release());
      else if (answer.kind === "reply") {
        held?.discard();
        replace(c, held === undefined ? madeIn(c, answer) : toResponse(answer));
      } else {
        await next();
        if (answer.added.length > 0) replace(c, withHeaders(c.res, answer.added));
      }
    } catch (error) {
      held?.discard();
      throw error;
    }
  };
}

/** Assigning alone would lay the headers of the one before over those of the new one. */
function replace(c: Context, response: Response): void {
  if (c.finalized && c.res === response) return;
  c.res = undefined;
  c.res = response;
}

/** With the headers that middleware before us set for this very request. Lines about the reader's origin add up. */
function madeIn(c: Context, { status, headers, body }: Reply): Response {
  const own: Record<string, string[]> = {};
  const further: HeaderLine[] = [];
  for (const [name, value] of headers) {
    if (name.startsWith("access-control-")) further.push([name, value]);
    else if (own[name] === undefined) own[name] = [value];
    else own[name].push(value);
  }
  return withHeaders(c.newResponse(bodyOf(status, body), status as StatusCode, own), further);
}

function honoRequest<E extends Env>(c: Context<E>): HttpRequest<Context<E>> {
  return {
    native: c,
    method: c.req.method,
    target: c.req.url,
    header: (name) => c.req.header(name),
    readBody: (maxBytes) => readBody(c, maxBytes),
    isGone: () => isGone(c.req.raw),
  };
}

/** What others read before us is in Hono's own cache, unless they went around it. */
async function readBody({ req }: Context, maxBytes: number): Promise<RequestBody | "too-large"> {
  const [cached] = Object.keys(req.bodyCache);
  if (cached === undefined) return readWebBody(req.raw, maxBytes);
  if (cached === "formData") return { kind: "parsed", value: [...(await req.formData())] };
  const bytes = new Uint8Array(await req.arrayBuffer());
  return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
}
