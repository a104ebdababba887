/** Receives a message as an HTTP request of any framework: its headers and the raw bytes of its body. */
import { concatBytes } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { describeType } from "../core/identity.ts";
import { parseJson } from "../core/parse-json.ts";
import { findWaitUntil, type WaitUntil } from "../core/wait-until.ts";
import { type HttpAnswer, refusal, toResponse } from "./http-answer.ts";

/** Headers as Node has them, or as `Headers` of the platform. */
export type IncomingHeaders =
  | {
      /** The value of a header; null if there is none. */
      get(name: string): string | null;
      /** The names of all headers. */
      keys(): Iterable<string>;
    }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A request as a framework provides it. The body must be the raw bytes, before any parser ran. */
export interface Incoming {
  /** The headers of the request. */
  readonly headers: IncomingHeaders;
  /** The body exactly as it was sent: a signature covers its bytes. */
  readonly body: Uint8Array | string;
  /** The full URL of the request. Needed if the sender signs it. */
  readonly url?: string | undefined;
  /** The platform's `waitUntil` for this request, where there is one. */
  readonly waitUntil?: WaitUntil | undefined;
}

/** A request in one shape for all frameworks. */
export interface Received {
  /** The name is case-insensitive. Undefined if there is no such header. */
  header(name: string): string | undefined;
  /** In lower case. */
  headerNames(): readonly string[];
  /** The body exactly as it was sent. */
  readonly body: Uint8Array;
  /** The address of the request, if the server passed it on. */
  readonly url: string | undefined;
  /** The body as text. */
  text(): string;
  /** Throws a SyntaxError if the body is not JSON. */
  json(): unknown;
}

/**
 * `Request → Response`. `handed`: what the platform hands over besides the request; the `waitUntil` of a context is used.
 * `handle` is the same for frameworks with other request types.
 */
export interface Receiver {
  (request: Request, ...handed: readonly unknown[]): Promise<Response>;
  /** Checks and processes one request, and says how to respond. It does not reject: failures are answers. */
  handle(incoming: Incoming): Promise<HttpAnswer>;
}

export function createReceiver(
  maxBodyBytes: number,
  answer: (received: Received, platform: Pick<Incoming, "waitUntil">) => Promise<HttpAnswer>,
): Receiver {
  async function handle({ headers, body, url, waitUntil }: Incoming): Promise<HttpAnswer> {
    const bytes = toBytes(body);
    if (bytes.byteLength > maxBodyBytes) return refusal(tooLarge(maxBodyBytes));
    return answer(toReceived(headers, bytes, url), { waitUntil });
  }

  async function receive(request: Request, ...handed: readonly unknown[]): Promise<Response> {
    const body = await readUpTo(request, maxBodyBytes);
    if (body === undefined) return toResponse(refusal(tooLarge(maxBodyBytes)));
    const { headers, url } = request;
    return toResponse(await handle({ headers, body, url, waitUntil: findWaitUntil(handed) }));
  }

  return Object.assign(receive, { handle });
}

function toReceived(headers: IncomingHeaders, body: Uint8Array, url: string | undefined): Received {
  const text = () => new TextDecoder().decode(body);
  return { ...lookup(headers), body, url, text, json: () => parseJson(text()) };
}

function lookup(headers: IncomingHeaders): Pick<Received, "header" | "headerNames"> {
  if (isHeaders(headers)) {
    const headerNames = () => [...headers.keys()].map((name) => name.toLowerCase());
    return { header: (name) => headers.get(name) ?? undefined, headerNames };
  }
  const byName = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const header = (name: string) => {
    const value = byName.get(name.toLowerCase());
    return typeof value === "object" ? value.join(", ") : value;
  };
  return { header, headerNames: () => [...byName.keys()] };
}

/** A header may be named get; then `headers.get` is text, not a function. */
function isHeaders(headers: IncomingHeaders): headers is Extract<IncomingHeaders, { keys(): unknown }> {
  return typeof headers.get === "function";
}

function toBytes(body: unknown): Uint8Array {
  if (typeof body === "string") return new TextEncoder().encode(body);
  if (body instanceof Uint8Array) return body;
  throw new NevertwiceError(
    "options-invalid",
    `the body is ${describeType(body)}: pass its raw bytes, before any parser runs.`,
  );
}

function tooLarge(maxBodyBytes: number): NevertwiceError {
  return new NevertwiceError("body-too-large", `the body has more than ${maxBodyBytes} bytes.`);
}

/** The whole body, or undefined as soon as it exceeds `maxBytes`. */
async function readUpTo(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  if (request.bodyUsed) {
    throw new NevertwiceError(
      "options-invalid",
      "the body was already read: pass the request before anything reads its body.",
    );
  }
  if (Number(request.headers.get("content-length")) > maxBytes) return undefined;
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  while (reader !== undefined) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > maxBytes) {
      // Not cancelled: if the stream is a socket, that would also cut off the response.
      reader.releaseLock();
      return undefined;
    }
    chunks.push(value);
  }
  return concatBytes(chunks, size);
}
