/** Hono middleware for whole apps and single routes, on every runtime that Hono supports. */
import type { Context, Env, MiddlewareHandler } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import type { Engine } from "../core/engine.ts";
import { createExchange } from "./exchange.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import type { HeaderLine, HttpReply, HttpRequest, RequestBody } from "./http-message.ts";
import type { HttpOptions } from "./options.ts";
import { isAdditive } from "./replay.ts";
import { isGone, readWebBody } from "./web-request.ts";
import { type HeldResponse, holdBack, toBody, toResponse, withHeaders } from "./web-response.ts";

declare module "hono" {
  interface ContextVariableMap {
    /** The attempt of the handler; undefined if the request has no key. */
    idempotency: HttpAttempt | undefined;
  }
}

/**
 * Mount it after authentication. If the handler throws, the response of `app.onError` is the handler's response. Headers
 * that outer middleware sets are on replays too.
 */
// biome-ignore lint/suspicious/noExplicitAny: Hono's own default. Without it, `scope` could not read any variable.
export function idempotency<E extends Env = any>(
  guard: Engine,
  options: HttpOptions<Context<E>>,
): MiddlewareHandler<E> {
  const exchange = createExchange(guard, options);
  return async function idempotent(c, next) {
    // The layer is also mounted further out, on the app for example, and is already handling this request.
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
        replace(c, held === undefined ? toContextResponse(c, answer) : toResponse(answer));
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

/** Assigning `c.res` directly would copy the headers of the previous response onto the new one. */
function replace(c: Context, response: Response): void {
  if (c.finalized && c.res === response) return;
  c.res = undefined;
  c.res = response;
}

/** The reply as a response with the headers that earlier middleware set for this request. Additive headers get both values. */
function toContextResponse(c: Context, { status, headers, body }: HttpReply): Response {
  const own: Record<string, string[]> = {};
  const further: HeaderLine[] = [];
  for (const [name, value] of headers) {
    if (isAdditive(name)) further.push([name, value]);
    else if (own[name] === undefined) own[name] = [value];
    else own[name].push(value);
  }
  return withHeaders(c.newResponse(toBody(status, body), status as StatusCode, own), further);
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

/** A body that earlier middleware has read is in Hono's own cache, unless it was read from `c.req.raw`. */
async function readBody({ req }: Context, maxBytes: number): Promise<RequestBody | "too-large"> {
  const [cached] = Object.keys(req.bodyCache);
  if (cached === undefined) return readWebBody(req.raw, maxBytes);
  if (cached === "formData") return { kind: "parsed", value: [...(await req.formData())] };
  const bytes = new Uint8Array(await req.arrayBuffer());
  return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
}
