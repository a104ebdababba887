/** A web `Request` as the exchange sees it. Its body is read from a copy, so the handler finds its own untouched. */
import { NevertwiceError } from "../core/errors.ts";
import type { HttpRequest, RequestBody } from "./exchange.ts";
import { NodeRequest } from "./node-request.ts";
import { incomingOf } from "./node-server-notes.ts";

const EMPTY = new Uint8Array();

export function webRequest<R extends Request>(request: R): HttpRequest<R> {
  return {
    native: request,
    method: request.method,
    target: request.url,
    header: (name) => request.headers.get(name) ?? undefined,
    readBody: (maxBytes) => readWebBody(request, maxBytes),
    isGone: () => isGone(request),
  };
}

/** Of a request behind Hono's server for Node, the socket says so for less than a signal costs. */
export function isGone(request: Request): boolean {
  return incomingOf(request)?.socket?.destroyed ?? request.signal.aborted;
}

export async function readWebBody(request: Request, maxBytes: number): Promise<RequestBody | "too-large"> {
  if (request.bodyUsed) {
    throw new NevertwiceError(
      "options-invalid",
      'the body was read before this layer, and nothing is left of it. Put this layer before whatever reads it, or say fingerprint: "none".',
    );
  }
  const incoming = incomingOf(request);
  if (incoming !== undefined) return new NodeRequest(request, incoming).readBody(maxBytes);
  if (Number(request.headers.get("content-length")) > maxBytes) return "too-large";
  if (request.body === null) return { kind: "bytes", bytes: EMPTY };
  const read = await readUpTo(request.clone().body as ReadableStream<Uint8Array>, maxBytes);
  return read === undefined ? "too-large" : { kind: "bytes", bytes: read };
}

/** All of a stream, or undefined as soon as it has more bytes than that. The rest is left where it is. */
async function readUpTo(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return joined(chunks, size);
    size += value.byteLength;
    if (size > maxBytes) {
      // Not cancelled: where the stream is a socket, that would cut off the answer too.
      reader.releaseLock();
      return undefined;
    }
    chunks.push(value);
  }
}

/** One array of bytes, without a copy if there is but one. */
export function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const [only] = chunks;
  if (only === undefined) return EMPTY;
  if (chunks.length === 1) return only;
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
