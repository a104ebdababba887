/**
 * What Hono's server for Node notes on the requests and responses that it makes itself: where a request comes from, and
 * what a response was made of. It saves turning both into streams and back. Where a note is missing or looks different,
 * everything works the same, only slower.
 */
import type { IncomingMessage } from "node:http";
import type { HeaderLine } from "./exchange.ts";
import type { HeadEncoding } from "./head-bytes.ts";

/** The message of HTTP/1 that a request stands for, unless the request was turned into a real one that reads it. */
export function incomingOf(request: Request): IncomingMessage | undefined {
  const incoming = noteIn(request, "incomingKey") as IncomingMessage | undefined;
  if (noteIn(request, "requestCache") !== undefined) return undefined;
  if (incoming?.httpVersionMajor !== 1 || typeof incoming.unshift !== "function") return undefined;
  return incoming;
}

function noteIn(noted: Request | Response, name: string): unknown {
  const symbol = Object.getOwnPropertySymbols(noted).find(({ description }) => description === name);
  return symbol && (noted as unknown as Record<symbol, unknown>)[symbol];
}

export interface MadeOf {
  readonly body: string | Uint8Array | null;
  readonly headers: readonly HeaderLine[];
}

/** Undefined for responses that were not made of text or bytes, and for those of any other server. */
export function madeOf(response: Response): MadeOf | undefined {
  const [status, body, headers] = noteOf(response) ?? [];
  if (status !== response.status) return undefined;
  if (body !== null && typeof body !== "string" && !(body instanceof Uint8Array)) return undefined;
  return { body, headers: plainLines(headers) ?? ([...response.headers] as HeaderLine[]) };
}

/**
 * How this server sends the head of a response, over HTTP/1: text goes out together with its head, and the head of a
 * stream by itself, both as UTF-8. Other servers and HTTP/2 send one byte a character.
 */
export function headEncodingOf(request: Request, response: Response): HeadEncoding {
  const incoming = noteIn(request, "incomingKey") as IncomingMessage | undefined;
  if (incoming?.httpVersionMajor !== 1) return "latin1";
  const [, body = null] = noteOf(response) ?? [];
  return typeof body === "string" || body instanceof ReadableStream ? "utf8" : "latin1";
}

function noteOf(response: Response): readonly unknown[] | undefined {
  const note = noteIn(response, "cache");
  return Array.isArray(note) && note.length === 3 ? (note as unknown[]) : undefined;
}

/** Of a plain object alone. */
function plainLines(headers: unknown): HeaderLine[] | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  if (Object.getPrototypeOf(headers) !== Object.prototype) return undefined;
  const lines = Object.entries(headers);
  return lines.every(([, value]) => typeof value === "string") ? lines : undefined;
}
