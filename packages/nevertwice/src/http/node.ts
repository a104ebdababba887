/**
 * Plain `node:http`, `node:https` and `node:http2`: wraps a request listener.
 *
 * If the handler throws or rejects before it has responded, the guard's `onFailure` policy settles the key. Then the
 * listener rejects with the same error, and Node treats it like that of any asynchronous listener: it responds 500 if
 * `EventEmitter.captureRejections` is on. Otherwise it is an unhandled rejection, which by default ends the process.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Engine } from "../core/engine.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import { createNodeExchange } from "./node-exchange.ts";
import { NodeRequest } from "./node-request.ts";
import type { HttpOptions } from "./options.ts";

type ResponseTo<Req> = Req extends Http2ServerRequest ? Http2ServerResponse : ServerResponse;

/** `attempt` is undefined if the request has no key and needs none. */
export type Handler<Req> = (req: Req, res: ResponseTo<Req>, attempt: HttpAttempt | undefined) => unknown;

/** What `http.createServer` takes. */
export type Listener<Req> = (req: Req, res: ResponseTo<Req>) => Promise<void>;

/**
 * For `http.createServer` and `http2`: returns a function that makes a guarded listener of a handler. A
 * request with a key runs once, and a duplicate gets the stored response.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createServer } from "node:http";
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/node";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * const once = idempotency(guard, { scope: (request) => String(request.headers["x-customer"]) });
 * const pay = once((_request, response) => response.writeHead(201).end("paid"));
 * createServer((request, response) => void pay(request, response)).listen(3000);
 * ```
 */
export function idempotency<Req extends IncomingMessage | Http2ServerRequest = IncomingMessage>(
  guard: Engine,
  options: HttpOptions<Req>,
): (handler: Handler<Req>) => Listener<Req> {
  const { serve } = createNodeExchange(guard, options);
  return (handler) =>
    async function idempotent(req, res) {
      const request = new NodeRequest(req, req as IncomingMessage);
      await serve(request, res as ServerResponse, (attempt) => handler(req, res, attempt));
    };
}
