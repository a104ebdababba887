/** A web `Request` in the shape of the exchange. The body is read from a clone, so the handler can still read its own. */
import { concatBytes } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { findWaitUntil } from "../core/wait-until.ts";
import { findIncomingMessage } from "./hono-node-server.ts";
import type { HttpRequest, RequestBody } from "./http-message.ts";
import { NodeRequest } from "./node-request.ts";

const EMPTY = new Uint8Array();

/** `handed` is what the platform hands to the handler besides the request. */
export function webRequest<R extends Request>(request: R, handed: readonly unknown[]): HttpRequest<R> {
  return {
    native: request,
    method: request.method,
    target: request.url,
    header: (name) => request.headers.get(name) ?? undefined,
    readBody: (maxBytes) => readWebBody(request, maxBytes),
    isGone: () => isGone(request),
    waitUntil: findWaitUntil(handed),
  };
}

/** On Hono's Node server the socket is asked, since creating the request's signal costs more. */
export function isGone(request: Request): boolean {
  return findIncomingMessage(request)?.socket?.destroyed ?? request.signal.aborted;
}

export function readWebBody(
  request: Request,
  maxBytes: number,
): RequestBody | "too-large" | Promise<RequestBody | "too-large"> {
  if (request.bodyUsed) {
    throw new NevertwiceError(
      "options-invalid",
      'the body was read before this layer and can no longer be read. Mount this layer in front of the code that reads it, or set fingerprint: "none".',
    );
  }
  const incoming = findIncomingMessage(request);
  if (incoming !== undefined) return new NodeRequest(request, incoming).readBody(maxBytes);
  if (Number(request.headers.get("content-length")) > maxBytes) return "too-large";
  if (request.body === null) return { kind: "bytes", bytes: EMPTY };
  return readUpTo(request.clone().body as ReadableStream<Uint8Array>, maxBytes);
}

/** The whole stream, or `"too-large"` as soon as it has more bytes than `maxBytes`. The rest stays unread. */
async function readUpTo(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<RequestBody | "too-large"> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { kind: "bytes", bytes: concatBytes(chunks, size) };
    size += value.byteLength;
    if (size > maxBytes) {
      // Not cancelled: if the stream is a socket, that would also close the connection before the response.
      reader.releaseLock();
      return "too-large";
    }
    chunks.push(value);
  }
}
