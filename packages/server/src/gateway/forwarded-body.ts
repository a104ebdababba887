/** The body of a client's request, in the form in which it is forwarded. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

export interface ForwardedBody {
  readonly content: Buffer | Readable | null;
  /** The length of a body that is streamed, if the client sent one. */
  readonly length: string | undefined;
}

const NONE: ForwardedBody = { content: null, length: undefined };

/** A buffer if the whole body has arrived, else a stream. */
export function forwardedBody(req: IncomingMessage): ForwardedBody {
  const length = req.headers["content-length"];
  if (req.headers["transfer-encoding"] === undefined && Number(length ?? 0) === 0) return NONE;
  if (req.complete) {
    const content: Buffer | null = req.read();
    // For a complete request, `read` returns all that is left.
    if (content === null) return NONE;
    return { content, length: undefined };
  }
  return { content: toStream(req), length };
}

const streams = new WeakMap<IncomingMessage, Readable>();

/** Ends a body that is being streamed with this error. False if there is none. */
export function failBody(req: IncomingMessage, error: Error): boolean {
  const body = streams.get(req);
  if (body === undefined || body.destroyed) return false;
  body.destroy(error);
  return true;
}

/** A separate stream: the dispatcher destroys the stream that it gets, and destroying the request would close the connection. */
function toStream(req: IncomingMessage): Readable {
  const body = new Readable({ read: () => void req.resume() });
  const onData = (chunk: Buffer): void => {
    if (!body.push(chunk)) req.pause();
  };
  req.on("data", onData);
  streams.set(req, body);
  req.once("end", () => body.push(null));
  // An incomplete body must not look complete.
  req.once("close", () => {
    if (!req.complete) body.destroy(new Error("the client disconnected before its request was complete"));
  });
  // The rest of the body is discarded, so that the client gets to read the response.
  body.once("close", () => {
    req.off("data", onData);
    req.resume();
  });
  return body;
}
