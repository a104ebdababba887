/** The body of a client's request, as it is sent on. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

export interface RequestBody {
  readonly content: Buffer | Readable | null;
  /** Of a body that is sent on while it comes, if the client said how long it is. */
  readonly length: string | undefined;
}

const NONE: RequestBody = { content: null, length: undefined };

/** All of it where it has come, and a stream where it has not. */
export function requestBody(req: IncomingMessage): RequestBody {
  const length = req.headers["content-length"];
  if (req.headers["transfer-encoding"] === undefined && Number(length ?? 0) === 0) return NONE;
  if (req.complete) {
    const content: Buffer | null = req.read();
    // What was read of a complete request is the rest of it: nothing comes after.
    if (content === null) return NONE;
    return { content, length: undefined };
  }
  return { content: streamOf(req), length };
}

const streams = new WeakMap<IncomingMessage, Readable>();

/** Ends a body that is sent on while it comes, with this error. False if there is none. */
export function failBody(req: IncomingMessage, error: Error): boolean {
  const body = streams.get(req);
  if (body === undefined || body.destroyed) return false;
  body.destroy(error);
  return true;
}

/** A stream of its own: the dispatcher destroys what it is given, and with the request would go the connection. */
function streamOf(req: IncomingMessage): Readable {
  const body = new Readable({ read: () => void req.resume() });
  const onData = (chunk: Buffer): void => {
    if (!body.push(chunk)) req.pause();
  };
  req.on("data", onData);
  streams.set(req, body);
  req.once("end", () => body.push(null));
  // Half a body must not pass for a whole one.
  req.once("close", () => {
    if (!req.complete) body.destroy(new Error("the client went away before its request was whole"));
  });
  // The rest is read by nobody; it flows away, so that the answer gets through.
  body.once("close", () => {
    req.off("data", onData);
    req.resume();
  });
  return body;
}
