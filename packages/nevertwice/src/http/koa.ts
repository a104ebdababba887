/**
 * Koa middleware, for Koa 3 and 2. Koa answers after all middleware has returned, so what is held back is held until
 * then, whatever middleware lies around this one.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./exchange.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest, type ParsedBody } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";

/** What the functions of the options are handed, unless they name a type of their own: `scope: (ctx: Context) => …`. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly request: object;
  readonly response: object;
  readonly originalUrl: string;
  /** `idempotency` is the attempt that the handler runs for; undefined if the request has no key. */
  // biome-ignore lint/suspicious/noExplicitAny: as Koa has it, for whatever an app keeps there.
  readonly state: any;
  respond?: boolean | undefined;
  onerror(error: unknown): void;
  get(name: string): string;
}

/** Fits in wherever Koa takes middleware: what more its contexts have is known to the options alone. */
export type Middleware = (ctx: KoaContext, next: () => Promise<unknown>) => Promise<void>;

export function idempotency<Context extends KoaContext = KoaContext>(
  guard: Engine,
  options: HttpOptions<Context>,
): Middleware {
  const { serve } = createNodeExchange(guard, options);
  return function idempotent(ctx, next) {
    // Mounted on the app and on the route: the outer one is at it already.
    if (ctx.state.idempotency !== undefined) return next().then(() => {});
    const request = new NodeRequest(ctx as Context, ctx.req, {
      target: ctx.originalUrl,
      parsed: ctx.request as ParsedBody,
    });
    return new Promise((resolve, reject) => {
      let isStarted = false;
      // What it throws goes up to Koa, which answers it on the response like anything else.
      const start = (attempt: HttpAttempt | undefined) => {
        isStarted = true;
        if (attempt === undefined) {
          next().then(() => resolve(), reject);
          return;
        }
        ctx.state.idempotency = attempt;
        answerUnseen(ctx);
        next().then(() => {
          standByHead(ctx);
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

/**
 * Koa asks the connection whether there is anybody to answer, and if not, answers nothing. Whoever comes back for the
 * answer must find it whole, so a response that is held can always be written to. Koa also answers the errors of the
 * connection itself, if it can: those are none of the handler's.
 */
function answerUnseen(ctx: KoaContext): void {
  const { onerror } = ctx;
  Object.defineProperty(ctx.response, "writable", WRITABLE);
  ctx.onerror = (error) => {
    if (error === ctx.req.socket.errored) cutOff = ctx;
    try {
      onerror.call(ctx, error);
    } finally {
      cutOff = undefined;
    }
  };
}

/** The context that is being told of an error of its connection. */
let cutOff: KoaContext | undefined;

/** One getter for all: with one of its own, each response would have a hidden class of its own, and nothing be warm. */
const WRITABLE: PropertyDescriptor = {
  configurable: true,
  get(this: { readonly ctx: KoaContext; readonly res: ServerResponse }) {
    return this.ctx !== cutOff && !this.res.writableEnded;
  },
};

/** Koa stops a stream whose reader is gone, also before its first byte: the head that the handler set stands. */
function standByHead({ req, res }: KoaContext): void {
  const { destroy } = res;
  res.destroy = (error) => {
    if (req.socket.destroyed && !res.headersSent) res.writeHead(res.statusCode);
    return destroy.call(res, error);
  };
}
