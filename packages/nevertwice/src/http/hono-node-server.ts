/**
 * `@hono/node-server` stores private notes under symbols on the `Request` and `Response` objects that it creates: the
 * Node message behind a request, and the status, body and headers that a response was created from. Four things need
 * them:
 *
 * - A response that was created from text or bytes can be kept without reading it as a stream. Then the server still
 *   sends the same `Response` object, with header names spelt as the handler spelt them and with a Content-Length.
 * - The notes tell whether this server sends a head as UTF-8 or as latin1, and so which bytes a replay must repeat.
 * - Reading the body from the Node message, and the disconnect from its socket, avoids cloning the request. Measured on
 *   the memory store: half the processor time of a request.
 * - A replay can be created from plain headers if they show that earlier middleware has set none, and the body that no
 *   handler has read can be ended.
 *
 * If a note is missing or has another form, the layer works without it: slower, with lower-case header names in first
 * responses and with heads as latin1. Without the notes, 16 of the published adapter cases fail on this server.
 */
import type { IncomingMessage } from "node:http";
import type { HeadEncoding } from "./head-bytes.ts";
import type { HeaderLine } from "./http-message.ts";

/** The HTTP/1 message behind a request. Undefined if the server has already created a real `Request` that reads it. */
export function findIncomingMessage(request: Request): IncomingMessage | undefined {
  let incoming: IncomingMessage | undefined;
  // One pass for both notes: most requests lack the second one, and only a look at all symbols shows that.
  for (const symbol of Object.getOwnPropertySymbols(request)) {
    const { description } = symbol;
    if (description === "incomingKey") incoming = noteUnder(request, symbol) as IncomingMessage | undefined;
    else if (description === "requestCache" && noteUnder(request, symbol) !== undefined) return undefined;
  }
  if (incoming?.httpVersionMajor !== 1 || typeof incoming.unshift !== "function") return undefined;
  return incoming;
}

/** The symbols that were found last. The server creates each of them once. */
const symbols = new Map<string, symbol>();

function readNote(holder: Request | Response, name: string): unknown {
  const known = symbols.get(name);
  const note = known === undefined ? undefined : noteUnder(holder, known);
  if (note !== undefined) return note;
  const symbol = Object.getOwnPropertySymbols(holder).find(({ description }) => description === name);
  if (symbol === undefined) return undefined;
  symbols.set(name, symbol);
  return noteUnder(holder, symbol);
}

function noteUnder(holder: Request | Response, symbol: symbol): unknown {
  return (holder as unknown as Record<symbol, unknown>)[symbol];
}

/**
 * Ends the stream of a body that has arrived, and that no handler will read. Otherwise the server sets a timer for each such
 * request. Middleware further out may still read the request: for that, the server looks at `rawBody` first.
 */
export function endBody(request: Request): void {
  const incoming = findIncomingMessage(request) as (IncomingMessage & { rawBody?: unknown }) | undefined;
  if (incoming === undefined || !incoming.complete || incoming.readableDidRead) return;
  const bytes: unknown = incoming.read();
  if (bytes instanceof Uint8Array) incoming.rawBody = bytes;
}

export interface ResponseSource {
  readonly body: string | Uint8Array | null;
  readonly headers: readonly HeaderLine[];
}

/** Undefined for responses that were not created from text or bytes, and on every other server. */
export function findResponseSource(response: Response): ResponseSource | undefined {
  const [status, body, headers] = readResponseNote(response) ?? [];
  if (status !== response.status) return undefined;
  if (body !== null && typeof body !== "string" && !(body instanceof Uint8Array)) return undefined;
  return { body, headers: plainLines(headers) ?? ([...response.headers] as HeaderLine[]) };
}

/**
 * How the server encodes the head of a response. Over HTTP/1, `@hono/node-server` sends a text together with its head, and
 * the head of a stream separately, both as UTF-8. Other servers, and HTTP/2, use latin1.
 */
export function headEncoding(request: Request, response: Response): HeadEncoding {
  const incoming = readNote(request, "incomingKey") as IncomingMessage | undefined;
  if (incoming?.httpVersionMajor !== 1) return "latin1";
  const [, body = null] = readResponseNote(response) ?? [];
  return typeof body === "string" || body instanceof ReadableStream ? "utf8" : "latin1";
}

/** Whether this server's response was created without any headers. */
export function isWithoutHeaders(response: Response): boolean {
  const note = readResponseNote(response);
  return note !== undefined && note[2] === undefined;
}

function readResponseNote(response: Response): readonly unknown[] | undefined {
  const note = readNote(response, "cache");
  return Array.isArray(note) && note.length === 3 ? (note as unknown[]) : undefined;
}

/** Undefined unless `headers` is a plain object of strings. */
function plainLines(headers: unknown): HeaderLine[] | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  if (Object.getPrototypeOf(headers) !== Object.prototype) return undefined;
  const lines = Object.entries(headers);
  return lines.every(([, value]) => typeof value === "string") ? lines : undefined;
}
