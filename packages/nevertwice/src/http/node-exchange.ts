/**
 * One exchange on node's own request and response: what every adapter on top of them has in common. They differ in how
 * a handler is started and in where an error goes.
 */
import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import type { Engine } from "../core/engine.ts";
import type { Answer, Exchange, HttpAttempt, Reply, Run } from "./exchange.ts";
import { createExchange } from "./handle.ts";
import { areAscii, sendHead } from "./head-bytes.ts";
import { NobodyLeft, type NodeRequest } from "./node-request.ts";
import { isClosed, isHttp2, nodeResponse } from "./node-response.ts";
import type { HttpOptions } from "./options.ts";
import { ResponseCapture } from "./response-capture.ts";
import { appendToHead } from "./response-head.ts";

/**
 * Starts what comes after us; `attempt` is undefined for a request without a key. It answers on the response. What it
 * throws, or rejects with, before it has answered ends the attempt; what a framework turns into a response does not
 * come back here.
 */
export type Start = (attempt: HttpAttempt | undefined) => unknown;

export interface NodeExchange<Native> {
  /**
   * Resolves when the answer was given on its way and what `start` returned is over; rejects with the application's
   * own errors, for its framework to handle: then nothing is held any more and nothing was answered.
   */
  serve(request: NodeRequest<Native>, res: ServerResponse, start: Start): Promise<unknown>;
}

export function createNodeExchange<Native>(
  guard: Engine,
  options: HttpOptions<Native>,
): NodeExchange<Native> {
  const exchange = createExchange(guard, options);
  const goneMs = options.leaseMs ?? guard.policy.leaseMs;
  return { serve: (request, res, start) => serve({ exchange, goneMs }, request, res, start) };
}

interface Setting<Native> {
  readonly exchange: Exchange<Native>;
  readonly goneMs: number;
}

async function serve<Native>(
  { exchange, goneMs }: Setting<Native>,
  request: NodeRequest<Native>,
  res: ServerResponse,
  start: Start,
): Promise<unknown> {
  let capture: ResponseCapture | undefined;
  let started: unknown;
  const run: Run = (attempt, added) => {
    // What comes after us could no longer read the request of a client that has gone.
    if (res.headersSent || request.isGone())
      throw attempt.notDone(new NobodyLeft("nobody waits for the answer."));
    capture = new ResponseCapture(res, { exchange, added, goneMs });
    started = startIn(capture, start, attempt);
    return capture.response;
  };
  let answer: Answer;
  try {
    answer = await exchange.handle(request, run);
  } catch (error) {
    if (error instanceof NobodyLeft) return undefined;
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
  if (answer.kind === "held") capture?.release();
  else {
    capture?.discard();
    sendReply(res, answer);
  }
  return started;
}

function startIn(capture: ResponseCapture, start: Start, attempt: HttpAttempt): unknown {
  try {
    const started = start(attempt);
    if (isThenable(started)) started.then(undefined, (error) => capture.fail(error));
    return started;
  } catch (error) {
    capture.fail(error);
    return undefined;
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === "function";
}

/** What outer layers set stays, as with an answer of the handler; lines that concern the reader's origin add up. */
export function sendReply(res: ServerResponse, { status, headers, body }: Reply): void {
  if (res.headersSent || isClosed(nodeResponse(res))) return;
  res.statusCode = status;
  const seen = new Set<string>();
  for (const [name, value] of headers) {
    if (seen.has(name) || isOfOrigin(name)) res.appendHeader(name, value);
    else res.setHeader(name, value);
    seen.add(name);
  }
  if (status === 204 || status === 205 || status === 304) {
    res.end();
    return;
  }
  const length = Buffer.byteLength(body);
  if (areAscii(headers)) res.setHeader("Content-Length", length);
  else writeBytesOfHead(res, length);
  res.end(body);
}

/** A head whose values are bytes, one character a byte: neither text after it nor the length before it may change them. */
function writeBytesOfHead(res: ServerResponse, length: number): void {
  res.removeHeader("Content-Length");
  res.setHeader("Content-Length", length);
  res.writeHead(res.statusCode);
  if (!isHttp2(nodeResponse(res))) sendHead(nodeResponse(res), "latin1");
}

/** Whether a header is about the origin that may read the answer. */
export function isOfOrigin(name: string): boolean {
  return name.startsWith("access-control-");
}
