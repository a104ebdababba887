/** How Nest answers, or does not: what it would send where we have answered, and what it sends to nobody. */
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import { lastValueFrom, Observable } from "rxjs";

/** What of an Express response we call. */
export interface ExpressResponse extends ServerResponse {
  json(body: unknown): unknown;
  send(body?: unknown): unknown;
}

export type NestResponse = ExpressResponse | FastifyReply;

export function isFastify(response: NestResponse): response is FastifyReply {
  return "hijack" in response;
}

/** What more is answered goes nowhere: interceptors around us, Nest and its filters end as after any other handler. */
export function mute(response: NestResponse): void {
  const ignored = () => response;
  if (isFastify(response)) Object.assign(response, { send: ignored });
  else {
    const methods = { setHeader: ignored, appendHeader: ignored, removeHeader: ignored, writeHead: ignored };
    Object.assign(response, { ...methods, write: () => true, end: ignored });
  }
}

/** A handler that is carried out, whoever stops listening. */
export interface CarriedOut {
  readonly result: Observable<unknown>;
  /** Resolves when it is over; rejects with what it failed with if nobody was left to hear of it. */
  readonly over: Promise<void>;
}

/**
 * When its client goes away, Nest stops listening to an observable, which stops whatever makes it, and answers nothing.
 * Here it goes on, and what it makes is answered all the same: that is what a retry is going to be told.
 */
export function carriedOut(handled: Observable<unknown>, response: NestResponse): CarriedOut {
  let isHeard = false;
  const value = lastValueFrom(handled);
  const result = new Observable<unknown>((listener) => {
    value.then(
      (made) => {
        if (listener.closed) return;
        isHeard = true;
        listener.next(made);
        listener.complete();
      },
      (error: unknown) => {
        if (listener.closed) return;
        isHeard = true;
        listener.error(error);
      },
    );
  });
  // Nest listens at once if it does at all.
  const over = value.then(
    async (made) => {
      await turn();
      if (!isHeard) answer(response, made);
    },
    async (error: unknown) => {
      await turn();
      if (!isHeard) throw error;
    },
  );
  return { result, over };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** As Nest would have done it. Of files and streams only the fact is kept: nobody reads them. */
function answer(response: NestResponse, made: unknown): void {
  if (isStreamed(made)) {
    const res = isFastify(response) ? response.raw : response;
    res.flushHeaders();
    res.end();
    made.getStream?.().destroy();
  } else if (isFastify(response)) response.send(made);
  else if (typeof made === "object" && made !== null) response.json(made);
  else if (made === undefined || made === null) response.send();
  else response.send(String(made));
}

interface Streamed {
  getStream?(): { destroy(): void };
}

function isStreamed(made: unknown): made is Streamed {
  if (typeof made !== "object" || made === null) return false;
  return "getStream" in made || "pipe" in made || Symbol.asyncIterator in made || made instanceof Response;
}
