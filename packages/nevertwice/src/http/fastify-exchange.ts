/** One exchange on Fastify's request and reply: what the plugin, and Nest on top of Fastify, have in common. */
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Engine } from "../core/engine.ts";
import type { Answer, HttpAttempt, Reply } from "./exchange.ts";
import { createExchange } from "./handle.ts";
import { isOfOrigin, sendReply } from "./node-exchange.ts";
import { NobodyLeft, NodeRequest } from "./node-request.ts";
import { isClosed, nodeResponse } from "./node-response.ts";
import type { HttpOptions } from "./options.ts";
import { ResponseCapture } from "./response-capture.ts";
import { appendToHead } from "./response-head.ts";

/** What is to be answered. `bytes` are the body's, where somebody saw them pass. */
export interface Received {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly bytes?: Uint8Array | undefined;
}

/**
 * Starts what comes after us, once; `attempt` is undefined for a request without a key. It answers on the reply. What it
 * rejects with before it has answered ends the attempt.
 */
export type Start = (attempt: HttpAttempt | undefined) => Promise<void> | undefined;

/** Resolves when the answer is on its way; rejects with the application's own errors if nothing was started. */
export type Serve = (received: Received, start: Start) => Promise<void>;

export function createFastifyExchange(guard: Engine, options: HttpOptions<FastifyRequest>): Serve {
  const exchange = createExchange(guard, options);
  const goneMs = options.leaseMs ?? guard.policy.leaseMs;

  return async function serve({ request, reply, bytes }, start) {
    const res = reply.raw as ServerResponse;
    const incoming = new NodeRequest(request, request.raw, {
      target: request.originalUrl,
      parsed: { body: plain(request.body), rawBody: bytes },
    });
    let capture: ResponseCapture | undefined;
    let answer: Answer;
    try {
      answer = await exchange.handle(incoming, (attempt, added) => {
        // While the claim was made, the client may have gone, or a timeout of Fastify's own may have answered.
        if (reply.sent || incoming.isGone())
          throw attempt.notDone(new NobodyLeft("nobody waits for the answer."));
        const held = new ResponseCapture(res, { exchange, added, goneMs });
        capture = held;
        start(attempt)?.catch((error: unknown) => held.fail(error));
        return held.response;
      });
    } catch (error) {
      if (error instanceof NobodyLeft) reply.hijack();
      else if (capture === undefined) throw error;
      else giveUp(reply, capture, error);
      return;
    }
    if (answer.kind === "held") capture?.release();
    else if (answer.kind === "reply") {
      capture?.discard();
      if (!reply.sent) send(reply, answer, capture !== undefined);
    } else {
      if (answer.added.length > 0) appendToHead(nodeResponse(res), answer.added);
      start(undefined);
    }
  };
}

/** Parsers of forms make objects whose prototype is another one, empty. */
function plain(body: unknown): unknown {
  if (typeof body !== "object" || body === null) return body;
  const prototype: unknown = Object.getPrototypeOf(body);
  const isEmpty = prototype !== null && Object.getPrototypeOf(prototype) === null;
  return isEmpty && prototype !== Object.prototype ? { ...body } : body;
}

/** The handler was started, so Fastify no longer waits to be told of errors. */
function giveUp(reply: FastifyReply, capture: ResponseCapture, error: unknown): void {
  if (capture.isDestroyed) {
    capture.abort();
    return;
  }
  capture.discard();
  reply.send(error);
}

/**
 * Sends it as it was kept: past the hooks that made it what it is, which would do so twice. What hooks before us set for
 * this very request is on it too; of what a handler may have set as well, only what concerns the reader's origin.
 */
function send(reply: FastifyReply, answer: Reply, isStarted: boolean): void {
  const res = reply.raw as ServerResponse;
  if (!isClosed(nodeResponse(res))) {
    // Before the hijack: if node refuses a header of a hook, Fastify still answers the error.
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined && (!isStarted || isOfOrigin(name) || name === "vary"))
        res.setHeader(name, value);
    }
  }
  reply.hijack();
  sendReply(res, answer);
}
