/** Nest's responses: how to silence one that the layer has sent, and how to finish one whose client has disconnected. */
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import { lastValueFrom, Observable } from "rxjs";

/** The members of an Express response that are used here. */
export interface ExpressResponse extends ServerResponse {
  json(body: unknown): unknown;
  send(body?: unknown): unknown;
}

export type NestResponse = ExpressResponse | FastifyReply;

export function isFastify(response: NestResponse): response is FastifyReply {
  return "hijack" in response;
}

/** Ignores everything that Nest, its filters and outer interceptors still send on a response that was already sent. */
export function muteResponse(response: NestResponse): void {
  const ignored = () => response;
  if (isFastify(response)) Object.assign(response, { send: ignored });
  else {
    const methods = { setHeader: ignored, appendHeader: ignored, removeHeader: ignored, writeHead: ignored };
    Object.assign(response, { ...methods, write: () => true, end: ignored });
  }
}

/** A handler that runs to its end, even if Nest unsubscribes from its result. */
export interface RunningHandler {
  readonly result: Observable<unknown>;
  /** Resolves when the handler is done. Rejects with the handler's error if Nest is no longer subscribed. */
  readonly over: Promise<void>;
}

/**
 * When the client disconnects, Nest unsubscribes from the handler's observable, which stops its source, and sends no
 * response. Here the handler runs on and its result is sent all the same: a retry gets that response.
 */
export function runToEnd(handled: Observable<unknown>, response: NestResponse): RunningHandler {
  let isDelivered = false;
  const value = lastValueFrom(handled);
  const result = new Observable<unknown>((subscriber) => {
    value.then(
      (returned) => {
        if (subscriber.closed) return;
        isDelivered = true;
        subscriber.next(returned);
        subscriber.complete();
      },
      (error: unknown) => {
        if (subscriber.closed) return;
        isDelivered = true;
        subscriber.error(error);
      },
    );
  });
  // If Nest subscribes at all, it does so at once.
  const over = value.then(
    async (returned) => {
      await turn();
      if (!isDelivered) send(response, returned);
    },
    async (error: unknown) => {
      await turn();
      if (!isDelivered) throw error;
    },
  );
  return { result, over };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Sends the value as Nest would have. Of a file or a stream, only the head is sent and kept: the client is gone. */
function send(response: NestResponse, returned: unknown): void {
  if (isStreamed(returned)) {
    const res = isFastify(response) ? response.raw : response;
    res.flushHeaders();
    res.end();
    returned.getStream?.().destroy();
  } else if (isFastify(response)) response.send(returned);
  else if (typeof returned === "object" && returned !== null) response.json(returned);
  else if (returned === undefined || returned === null) response.send();
  else response.send(String(returned));
}

interface Streamed {
  getStream?(): { destroy(): void };
}

function isStreamed(value: unknown): value is Streamed {
  if (typeof value !== "object" || value === null) return false;
  return (
    "getStream" in value || "pipe" in value || Symbol.asyncIterator in value || value instanceof Response
  );
}
