/** Makes Koa finish a response that is held back although its client has disconnected. */
import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * The parts of Koa's context that are used here: the type that the functions in the options receive, unless they name
 * another (`scope: (ctx: Context) => …`).
 */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly request: object;
  readonly response: object;
  readonly originalUrl: string;
  readonly path?: string;
  /** Set by `@koa/router`. */
  readonly _matchedRoute?: unknown;
  /** `state.idempotency` is the attempt of the handler; undefined if the request has no key. */
  // biome-ignore lint/suspicious/noExplicitAny: Koa's own type, since an app may store any value there.
  readonly state: any;
  respond?: boolean | undefined;
  onerror(error: unknown): void;
  get(name: string): string;
}

/**
 * Koa does not respond if the connection is closed. A client that retries must still get the whole response, so a held
 * response always counts as writable. Koa also responds to errors of the connection itself; those are not the handler's,
 * and are not kept.
 */
export function respondWithoutClient(ctx: KoaContext): void {
  const { onerror } = ctx;
  Object.defineProperty(ctx.response, "writable", WRITABLE);
  ctx.onerror = (error) => {
    if (error === ctx.req.socket.errored) disconnected = ctx;
    try {
      onerror.call(ctx, error);
    } finally {
      disconnected = undefined;
    }
  };
}

/** The context whose `onerror` is running because of an error of its connection. */
let disconnected: KoaContext | undefined;

/** One getter for all responses: with a getter each, every response would get its own hidden class, which is slow. */
const WRITABLE: PropertyDescriptor = {
  configurable: true,
  get(this: { readonly ctx: KoaContext; readonly res: ServerResponse }) {
    return this.ctx !== disconnected && !this.res.writableEnded;
  },
};

/** Koa destroys a stream whose client has disconnected, even before its first byte. The handler's head counts all the same. */
export function keepHeadOnDestroy({ req, res }: KoaContext): void {
  const { destroy } = res;
  res.destroy = (error) => {
    if (req.socket.destroyed && !res.headersSent) res.writeHead(res.statusCode);
    return destroy.call(res, error);
  };
}
