/**
 * One exchange on Node's own request and response, for every adapter that is built on them. The adapters differ in how
 * they start the handler and in where they send an error.
 */
import { Buffer } from "node:buffer";
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Engine } from "../core/engine.ts";
import type { Exchange, ExchangeResult, RunHandler } from "./exchange.ts";
import { createExchange } from "./exchange.ts";
import { areAscii, sendHead } from "./head-bytes.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";
import { ClientGone, type NodeRequest } from "./node-request.ts";
import { isClosed, isHttp2, nodeResponse } from "./node-response.ts";
import type { HttpOptions } from "./options.ts";
import { isAdditive } from "./replay.ts";
import { ResponseCapture } from "./response-capture.ts";
import { appendToHead } from "./response-head.ts";
import { isThenable } from "./thenable.ts";

/**
 * Starts the handler, which responds on Node's response. `attempt` is undefined for a request without a key. If it throws
 * or rejects before it has responded, the attempt ends with that error. An error that the framework turns into a response
 * does not come back here.
 */
export type StartNodeHandler = (attempt: HttpAttempt | undefined) => unknown;

export interface NodeExchange<Native> {
  /**
   * Resolves when the response is on its way and the promise that `start` returned has settled. Rejects with the
   * application's own errors, for its framework to handle: then no response was sent and none is held back.
   */
  serve(request: NodeRequest<Native>, res: ServerResponse, start: StartNodeHandler): Promise<unknown>;
}

export function createNodeExchange<Native>(
  guard: Engine,
  options: HttpOptions<Native>,
): NodeExchange<Native> {
  const exchange = createExchange(guard, options);
  const goneMs = options.leaseMs ?? guard.policy.leaseMs;
  return { serve: (request, res, start) => serve({ exchange, goneMs }, request, res, start) };
}

async function serve<Native>(
  { exchange, goneMs }: { readonly exchange: Exchange<Native>; readonly goneMs: number },
  request: NodeRequest<Native>,
  res: ServerResponse,
  start: StartNodeHandler,
): Promise<unknown> {
  let capture: ResponseCapture | undefined;
  let started: unknown;
  const run: RunHandler = (attempt, added) => {
    // The handler could no longer read the request of a client that has disconnected.
    if (res.headersSent || request.isGone())
      throw attempt.notDone(new ClientGone("the client disconnected before the handler started."));
    capture = new ResponseCapture(res, { exchange, added, goneMs });
    started = startIn(capture, start, attempt);
    return capture.response;
  };
  let answer: ExchangeResult;
  try {
    answer = await exchange.handle(request, run);
  } catch (error) {
    if (error instanceof ClientGone) return undefined;
    if (capture?.isDestroyed) {
      capture.abort();
      return started;
    }
    capture?.discard();
    throw error;
  }
  if (answer.kind === "pass") {
    if (answer.added.length > 0) appendToHead(nodeResponse(res), answer.added);
    return start(undefined);
  }
  if (answer.kind === "held") capture?.release(answer.added);
  else {
    capture?.discard();
    sendReply(res, answer);
  }
  return started;
}

function startIn(capture: ResponseCapture, start: StartNodeHandler, attempt: HttpAttempt): unknown {
  try {
    const started = start(attempt);
    if (isThenable(started)) started.then(undefined, (error) => capture.fail(error));
    return started;
  } catch (error) {
    capture.fail(error);
    return undefined;
  }
}

/** Headers that outer layers have set stay, as with a response of the handler. Additive headers get both values. */
export function sendReply(res: ServerResponse, { status, headers, body }: HttpReply): void {
  if (res.headersSent || isClosed(nodeResponse(res))) return;
  const hasNoBody = status === 204 || status === 205 || status === 304;
  if (!hasNoBody && areAscii(headers) && res.getHeaderNames().length === 0) {
    // With nothing to merge, Node takes the head at once, which is faster than setting its lines one by one.
    res.writeHead(status, toHead(headers, Buffer.byteLength(body)));
    res.end(body);
    return;
  }
  res.statusCode = status;
  const seen = new Set<string>();
  for (const [name, value] of headers) {
    if (seen.has(name) || isAdditive(name)) res.appendHeader(name, value);
    else res.setHeader(name, value);
    seen.add(name);
  }
  if (hasNoBody) {
    res.end();
    return;
  }
  const length = Buffer.byteLength(body);
  if (areAscii(headers)) res.setHeader("Content-Length", length);
  else sendHeadAsBytes(res, length);
  res.end(body);
}

/** Without a prototype: a header may be called `constructor`. */
function toHead(lines: readonly HeaderLine[], length: number): OutgoingHttpHeaders {
  const head: Record<string, string | string[] | number> = Object.create(null);
  for (const [name, value] of lines) {
    const before = head[name];
    head[name] = before === undefined ? value : [before as string | string[], value].flat();
  }
  head["Content-Length"] = length;
  return head;
}

/**
 * Sends a head whose values hold bytes, one character for each byte. It goes out as latin1 before the body, since
 * Node would encode it as UTF-8 together with a text. Setting the length again keeps Node from rewriting the values.
 */
function sendHeadAsBytes(res: ServerResponse, length: number): void {
  res.removeHeader("Content-Length");
  res.setHeader("Content-Length", length);
  res.writeHead(res.statusCode);
  if (!isHttp2(nodeResponse(res))) sendHead(nodeResponse(res), "latin1");
}
