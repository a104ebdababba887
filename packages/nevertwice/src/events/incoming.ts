/** A message that comes as an HTTP request: its headers and the very bytes of its body, from whatever framework. */
import { NevertwiceError } from "../core/errors.ts";
import { kindOf } from "../core/identity.ts";
import { type HttpAnswer, refusal, toResponse } from "./http-answer.ts";

export type IncomingHeaders =
  | { get(name: string): string | null; keys(): Iterable<string> }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** What a framework hands in. The body as it came, before anything parsed it. */
export interface Incoming {
  readonly headers: IncomingHeaders;
  readonly body: Uint8Array | string;
  /** The whole address that was called; needed where the sender signs it. */
  readonly url?: string | undefined;
}

/** What came in, in one shape. */
export interface Received {
  /** By its name in any case; undefined if there is none. */
  header(name: string): string | undefined;
  /** In lower case. */
  headerNames(): readonly string[];
  readonly body: Uint8Array;
  readonly url: string | undefined;
  text(): string;
  /** Throws a SyntaxError on what is no JSON. */
  json(): unknown;
}

/** `Request → Response`, and the same for frameworks that have their own. */
export interface Receiver {
  (request: Request): Promise<Response>;
  handle(incoming: Incoming): Promise<HttpAnswer>;
}

export function createReceiver(
  maxBodyBytes: number,
  answer: (received: Received) => Promise<HttpAnswer>,
): Receiver {
  async function handle({ headers, body, url }: Incoming): Promise<HttpAnswer> {
    const bytes = bytesOf(body);
    if (bytes.byteLength > maxBodyBytes) return refusal(tooLarge(maxBodyBytes));
    return answer(receivedOf(headers, bytes, url));
  }

  async function receive(request: Request): Promise<Response> {
    const body = await readUpTo(request, maxBodyBytes);
    const { headers, url } = request;
    return toResponse(
      body === undefined ? refusal(tooLarge(maxBodyBytes)) : await handle({ headers, body, url }),
    );
  }

  return Object.assign(receive, { handle });
}

function receivedOf(headers: IncomingHeaders, body: Uint8Array, url: string | undefined): Received {
  const text = () => new TextDecoder().decode(body);
  return { ...lookup(headers), body, url, text, json: () => JSON.parse(text()) };
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

/** A header may be called get; its value is text, and no function. */
function isHeaders(headers: IncomingHeaders): headers is Extract<IncomingHeaders, { keys(): unknown }> {
  return typeof headers.get === "function";
}

function bytesOf(body: unknown): Uint8Array {
  if (typeof body === "string") return new TextEncoder().encode(body);
  if (body instanceof Uint8Array) return body;
  throw new NevertwiceError(
    "options-invalid",
    `the body is ${kindOf(body)}: hand in its bytes as they came, before anything parses them.`,
  );
}

function tooLarge(maxBodyBytes: number): NevertwiceError {
  return new NevertwiceError("body-too-large", `the body has more than ${maxBodyBytes} bytes.`);
}

/** All of the body, or undefined as soon as it has more bytes than that. */
async function readUpTo(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  if (request.bodyUsed) {
    throw new NevertwiceError(
      "options-invalid",
      "the body was read before, and nothing is left of it: hand in the request before anything reads it.",
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
      // Not cancelled: where the stream is a socket, that would cut off the answer too.
      reader.releaseLock();
      return undefined;
    }
    chunks.push(value);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
