/** Hono middleware for whole apps and single routes, on every runtime that Hono supports. */
import type { Context, Env, HonoRequest, MiddlewareHandler } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import { canShareAcrossCalls } from "#platform";
import type { Engine } from "../core/engine.ts";
import type { WaitUntil } from "../core/wait-until.ts";
import { createExchange } from "./exchange.ts";
import { areAscii } from "./head-bytes.ts";
import { endBody, isWithoutHeaders } from "./hono-node-server.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import type { HeaderLine, HttpReply, HttpRequest, RequestBody } from "./http-message.ts";
import type { HttpOptions } from "./options.ts";
import { isAdditive } from "./replay.ts";
import { type MatchedRoute, matchedRoute } from "./route-path.ts";
import { isGone, readWebBody } from "./web-request.ts";
import { type HeldResponse, hasBody, holdBack, toBody, toResponse, withHeaders } from "./web-response.ts";

declare module "hono" {
  interface ContextVariableMap {
    /** The attempt of the handler; undefined if the request has no key. */
    idempotency: HttpAttempt | undefined;
  }
}

/**
 * Hono middleware: a request with a key runs once, and a duplicate gets the stored response. Mount it after authentication. If the handler throws, the response of `app.onError` is the handler's response. Headers
 * that outer middleware sets are on replays too.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { Hono } from "hono";
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/hono";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const app = new Hono();
 * app.use(idempotency(guard, { scope: (context) => context.req.header("x-customer") }));
 * app.post("/payments", (context) => context.json({ id: "ch_1" }, 201));
 * const headers = { "Idempotency-Key": '"order-17"', "x-customer": "alice" };
 * console.log((await app.request("/payments", { method: "POST", headers })).status); // 201
 * ```
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
      const answer = await exchange.handle(new ContextRequest(c), async (attempt, added) => {
        c.set("idempotency", attempt);
        await next();
        held = await holdBack(c.req.raw, withHeaders(c.res, added), exchange);
        return held.known;
      });
      if (answer.kind === "held") {
        replace(c, withHeaders((held as HeldResponse).release(), answer.added));
      } else if (answer.kind === "reply") {
        held?.discard();
        if (held === undefined) endBody(c.req.raw);
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
function toContextResponse(c: Context, reply: HttpReply): Response {
  const { status, headers, body } = reply;
  const plain = isWithoutHeaders(c.newResponse(null)) ? toPlainHeaders(reply) : undefined;
  if (plain !== undefined) return new Response(body as string, { status, headers: plain });
  // Without a prototype: a header may be called `constructor`.
  const own: Record<string, string[]> = Object.create(null);
  const further: HeaderLine[] = [];
  for (const [name, value] of headers) {
    if (isAdditive(name)) further.push([name, value]);
    else if (own[name] === undefined) own[name] = [value];
    else own[name].push(value);
  }
  return withHeaders(c.newResponse(toBody(status, body), status as StatusCode, own), further);
}

/**
 * The headers of a reply with a text, as Hono's Node server sends them fastest: an object with one string for each name.
 * Undefined for every other reply.
 */
function toPlainHeaders({ status, headers, body }: HttpReply): Record<string, string> | undefined {
  if (typeof body !== "string" || !hasBody(status, body) || !areAscii(headers)) return undefined;
  const plain: Record<string, string> = Object.create(null);
  for (const [name, value] of headers) {
    if (isAdditive(name) || Object.hasOwn(plain, name)) return undefined;
    plain[name] = value;
  }
  // Without a type, the platform would add its own for a text.
  return Object.hasOwn(plain, "content-type") ? plain : undefined;
}

class ContextRequest<E extends Env> implements HttpRequest<Context<E>> {
  readonly native: Context<E>;
  readonly method: string;
  readonly target: string;
  readonly route: MatchedRoute | undefined;
  readonly waitUntil: WaitUntil | undefined;

  constructor(c: Context<E>) {
    this.native = c;
    this.method = c.req.method;
    this.target = c.req.url;
    this.route = matchedRoute(listRoutes(c));
    this.waitUntil = canShareAcrossCalls ? undefined : findWaitUntil(c);
  }

  header(name: string): string | undefined {
    return this.native.req.header(name);
  }

  readBody(maxBytes: number): ReturnType<typeof readBody> {
    return readBody(this.native, maxBytes);
  }

  isGone(): boolean {
    return isGone(this.native.req.raw);
  }
}

/** The handler's route is among the last ones. */
function listRoutes(c: Context): readonly string[] {
  return c.req.matchedRoutes.map(({ path }) => path).reverse();
}

/** Hono throws if the platform handed it no context, which is slow. So only platforms that end requests are asked. */
function findWaitUntil(c: Context): WaitUntil | undefined {
  try {
    const context = c.executionCtx;
    return (work) => context.waitUntil(work);
  } catch {
    return undefined;
  }
}

/** A body that earlier middleware has read is in Hono's own cache, unless it was read from `c.req.raw`. */
function readBody(
  { req }: Context,
  maxBytes: number,
): RequestBody | "too-large" | Promise<RequestBody | "too-large"> {
  const [cached] = Object.keys(req.bodyCache);
  return cached === undefined ? readWebBody(req.raw, maxBytes) : readCachedBody(req, cached, maxBytes);
}

async function readCachedBody(
  req: HonoRequest,
  cached: string,
  maxBytes: number,
): Promise<RequestBody | "too-large"> {
  if (cached === "formData") return { kind: "parsed", value: [...(await req.formData())] };
  const bytes = new Uint8Array(await req.arrayBuffer());
  return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
}
