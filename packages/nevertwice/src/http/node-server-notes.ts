/**
 * What Hono's server for Node notes on the requests and responses that it makes itself: where a request comes from, and
 * what a response was made of. It saves turning both into streams and back. Where a note is missing or looks different,
 * everything works the same, only slower.
 */
import type { IncomingMessage } from "node:http";
import type { HeaderLine } from "./exchange.ts";

/** The message of HTTP/1 that a request stands for, unless the request was turned into a real one that reads it. */
export function incomingOf(request: Request): IncomingMessage | undefined {
  let incoming: IncomingMessage | undefined;
  for (const symbol of Object.getOwnPropertySymbols(request)) {
    const note = (request as unknown as Record<symbol, unknown>)[symbol];
    if (symbol.description === "requestCache" && note !== undefined) return undefined;
    if (symbol.description === "incomingKey") incoming = note as IncomingMessage | undefined;
  }
  if (incoming?.httpVersionMajor !== 1 || typeof incoming.unshift !== "function") return undefined;
  return incoming;
}

export interface MadeOf {
  readonly body: string | Uint8Array | null;
  readonly headers: readonly HeaderLine[];
}

/** Undefined for responses that were not made of text or bytes, and for those of any other server. */
export function madeOf(response: Response): MadeOf | undefined {
  const symbol = Object.getOwnPropertySymbols(response).find(({ description }) => description === "cache");
  const note = symbol && (response as unknown as Record<symbol, unknown>)[symbol];
  if (!Array.isArray(note) || note.length !== 3) return undefined;
  const [status, body, headers] = note as unknown[];
  if (status !== response.status) return undefined;
  if (body !== null && typeof body !== "string" && !(body instanceof Uint8Array)) return undefined;
  return { body, headers: plainLines(headers) ?? ([...response.headers] as HeaderLine[]) };
}

/** Of a plain object alone. */
function plainLines(headers: unknown): HeaderLine[] | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  if (Object.getPrototypeOf(headers) !== Object.prototype) return undefined;
  const lines = Object.entries(headers);
  return lines.every(([, value]) => typeof value === "string") ? lines : undefined;
}
