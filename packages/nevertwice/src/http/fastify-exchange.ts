/** One exchange on Fastify's request and reply, for the plugin and for Nest on Fastify. */
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Engine } from "../core/engine.ts";
import type { ExchangeResult } from "./exchange.ts";
import { createExchange } from "./exchange.ts";
import type { HttpAttempt } from "./http-attempt.ts";
import type { HttpReply } from "./http-message.ts";
import { sendReply } from "./node-exchange.ts";
import { ClientGone, NodeRequest } from "./node-request.ts";
import { isClosed, nodeResponse } from "./node-response.ts";
import type { HttpOptions } from "./options.ts";
import { isAdditive } from "./replay.ts";
import { ResponseCapture } from "./response-capture.ts";
import { appendToHead } from "./response-head.ts";
import { matchedRoute } from "./route-path.ts";

/** The request and its reply. `bytes` is the body, if a hook has collected it. */
export interface FastifyCall {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly bytes?: Uint8Array | undefined;
}

/**
 * Starts the handler, which responds on the reply. `attempt` is undefined for a request without a key. If it rejects
 * before it has responded, the attempt ends with that error.
 */
export type StartFastifyHandler = (attempt: HttpAttempt | undefined) => Promise<void> | undefined;

/** Resolves when the response is on its way. Rejects with the application's own errors if the handler was not started. */
export type ServeFastify = (received: FastifyCall, start: StartFastifyHandler) => Promise<void>;

export function createFastifyExchange(guard: Engine, options: HttpOptions<FastifyRequest>): ServeFastify {
  const exchange = createExchange(guard, options);
  const goneMs = options.leaseMs ?? guard.policy.leaseMs;

  return async function serve({ request, reply, bytes }, start) {
    const res = reply.raw as ServerResponse;
    const incoming = new NodeRequest(request, request.raw, {
      target: request.originalUrl,
      route: matchedRoute(request.routeOptions?.url, request.url.split("?", 1)[0]),
      parsed: { body: toPlainObject(request.body), rawBody: bytes },
    });
    let capture: ResponseCapture | undefined;
    let answer: ExchangeResult;
    try {
      answer = await exchange.handle(incoming, (attempt, added) => {
        // During the claim, the client may have disconnected, or a Fastify timeout may have responded.
        if (reply.sent || incoming.isGone())
          throw attempt.notDone(new ClientGone("the client disconnected before the handler started."));
        const held = new ResponseCapture(res, { exchange, added, goneMs });
        capture = held;
        start(attempt)?.catch((error: unknown) => held.fail(error));
        return held.response;
      });
    } catch (error) {
      if (error instanceof ClientGone) reply.hijack();
      else if (capture === undefined) throw error;
      else giveUp(reply, capture, error);
      return;
    }
    if (answer.kind === "held") capture?.release(answer.added);
    else if (answer.kind === "reply") {
      capture?.discard();
      if (!reply.sent) send(reply, answer, capture !== undefined);
    } else {
      if (answer.added.length > 0) appendToHead(nodeResponse(res), answer.added);
      start(undefined);
    }
  };
}

/** Form parsers create objects whose prototype is another, empty object. A fingerprint takes plain objects only. */
function toPlainObject(body: unknown): unknown {
  if (typeof body !== "object" || body === null) return body;
  const prototype: unknown = Object.getPrototypeOf(body);
  const isEmpty = prototype !== null && Object.getPrototypeOf(prototype) === null;
  return isEmpty && prototype !== Object.prototype ? { ...body } : body;
}

/** After the handler was started, Fastify no longer waits for an error of the hook, so the error is sent on the reply. */
function giveUp(reply: FastifyReply, capture: ResponseCapture, error: unknown): void {
  if (capture.isDestroyed) {
    capture.abort();
    return;
  }
  capture.discard();
  reply.send(error);
}

/**
 * Sends the reply without Fastify's `onSend` hooks: they have changed the first response, and would change it twice.
 * Headers that earlier hooks have set for this request are sent too. If the handler ran, it may have set them, so only
 * the additive ones are.
 */
function send(reply: FastifyReply, answer: HttpReply, isStarted: boolean): void {
  const res = reply.raw as ServerResponse;
  if (!isClosed(nodeResponse(res))) {
    // Before `hijack`: if Node rejects a header of a hook, Fastify can still respond with the error.
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined && (!isStarted || isAdditive(name))) res.setHeader(name, value);
    }
  }
  reply.hijack();
  sendReply(res, answer);
}
