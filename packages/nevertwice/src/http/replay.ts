/** Kept responses and their replays: status, allow-listed headers, and the exact bytes of the body. */
import { Buffer, isUtf8 } from "node:buffer";
import { ABOUT_THE_BYTES, isByCoding, isCodedFor } from "./content-coding.ts";
import type { HeaderLine, HttpReply, HttpResponse } from "./http-message.ts";

/**
 * A response as the store keeps it. `headers` alternates names and values. `body` is a string if its bytes are UTF-8, and
 * null if it was not kept. `answersUntil` is set if the response is replayed for a shorter time than its record is kept.
 */
export type KeptResponse = readonly [
  status: number,
  headers: readonly string[],
  body: string | Uint8Array | null,
  answersUntil?: number,
];

/** A response to send instead of the kept one. */
export interface CurrentResponse {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Strings and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
}

/** A replay that the application computes from the current state. */
export interface Current<Native> {
  readonly current: (
    request: Native,
    kept: { readonly status: number; readonly headers: readonly HeaderLine[]; readonly body: Uint8Array },
  ) => CurrentResponse | PromiseLike<CurrentResponse>;
}

/** `replay: current(fn)`: `fn` answers a duplicate from the current state. */
export function current<Native>(read: Current<Native>["current"]): Current<Native> {
  return { current: read };
}

/** Replayed in addition to all headers whose name starts with `content-`. */
const REPLAYED = new Set(["location", "etag", "last-modified", "link"]);

/** Headers that belong to one connection, one client or one moment. They are never sent to another request. */
export const NEVER_REPLAYED: ReadonlySet<string> = new Set([
  "set-cookie",
  "set-cookie2",
  "authorization",
  "proxy-authorization",
  "www-authenticate",
  "proxy-authenticate",
  "authentication-info",
  "proxy-authentication-info",
  "date",
  "age",
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
]);

/** Headers that describe the bytes of a body, and are wrong without them. */
const ABOUT_THE_BODY = new Set(["content-encoding", "content-range", ...ABOUT_THE_BYTES]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a header must not contain control characters.
const NOT_IN_A_VALUE = /[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/;

export function isReplayed(name: string, chosen: ReadonlySet<string>): boolean {
  if (NEVER_REPLAYED.has(name)) return false;
  return name.startsWith("content-") || REPLAYED.has(name) || chosen.has(name);
}

export interface KeptResponseOptions {
  /** The names in `replayHeaders`, in lower case. */
  readonly chosen: ReadonlySet<string>;
  /** Whether to keep status and headers only. */
  readonly isMarker: boolean;
  readonly answersUntil: number | undefined;
  /** Reads the `Accept-Encoding` of the request. */
  readonly accepted: () => string | undefined;
}

export function toKeptResponse(response: HttpResponse, how: KeptResponseOptions): KeptResponse {
  const headers: string[] = [];
  let doesVary = false;
  let isCoded = false;
  for (const [name, value] of response.headers) {
    const lower = name.toLowerCase();
    if (lower === "content-encoding") isCoded = true;
    if (!isReplayed(lower, how.chosen) || !TOKEN.test(lower) || NOT_IN_A_VALUE.test(value)) continue;
    if (lower === "vary" && isByCoding(value)) doesVary = true;
    headers.push(lower, value);
  }
  if (isCoded && !doesVary && isCodedFor(response.headers, how.accepted()))
    headers.push("vary", "accept-encoding");
  const body = how.isMarker || response.body === undefined ? null : bodyText(response.body);
  return how.answersUntil === undefined
    ? [response.status, headers, body]
    : [response.status, headers, body, how.answersUntil];
}

/** The same without its body: for a response that is too large to keep. */
export function withoutBody([status, headers, , answersUntil]: KeptResponse): KeptResponse {
  return answersUntil === undefined ? [status, headers, null] : [status, headers, null, answersUntil];
}

/** A string if the bytes are UTF-8: it is smaller, and people can read it. Otherwise the bytes. */
function bodyText(bytes: Uint8Array): string | Uint8Array {
  if (!isUtf8(bytes)) return bytes;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** The kept response. Undefined if the value is not a valid one: a value from a store is checked before it is used. */
export function readKept(value: unknown): KeptResponse | undefined {
  if (!Array.isArray(value) || value.length < 3 || value.length > 4) return undefined;
  const [status, headers, body, answersUntil] = value as unknown[];
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599) return undefined;
  if (!Array.isArray(headers) || headers.length % 2 !== 0) return undefined;
  for (let i = 0; i < headers.length; i += 2) {
    const name: unknown = headers[i];
    const content: unknown = headers[i + 1];
    if (typeof name !== "string" || !TOKEN.test(name) || NEVER_REPLAYED.has(name)) return undefined;
    if (typeof content !== "string" || NOT_IN_A_VALUE.test(content)) return undefined;
  }
  if (typeof body !== "string" && body !== null && !(body instanceof Uint8Array)) return undefined;
  if (answersUntil !== undefined && !Number.isFinite(answersUntil)) return undefined;
  return value as unknown as KeptResponse;
}

/** The replay of a kept response. It has `Cache-Control: no-store`, unless the application replays its own `Cache-Control`. */
export function replayReply([status, kept, body]: KeptResponse, replayedHeader: string): HttpReply {
  const headers: HeaderLine[] = [];
  let isCached = false;
  for (let i = 0; i < kept.length; i += 2) {
    const name = kept[i] as string;
    if (body === null && ABOUT_THE_BODY.has(name)) continue;
    if (name === "cache-control") isCached = true;
    headers.push([name, kept[i + 1] as string]);
  }
  if (!isCached) headers.push(["cache-control", "no-store"]);
  headers.push([replayedHeader, "true"]);
  if (body === null) headers.push(["nevertwice-outcome", "not-kept"]);
  return { kind: "reply", status, headers, body: body ?? "" };
}

/** Whether a header adds to the value that an outer layer has set, instead of replacing it: CORS headers and `Vary`. */
export function isAdditive(name: string): boolean {
  return name.startsWith("access-control-") || name === "vary";
}

/** The application's current response, marked as a replay. */
export async function currentReply<Native>(
  replay: Current<Native>,
  request: Native,
  [status, flat, body]: KeptResponse,
  replayedHeader: string,
): Promise<HttpReply> {
  const lines = toLines(flat);
  const bytes = typeof body === "string" ? Buffer.from(body, "utf8") : (body ?? new Uint8Array());
  const now = await replay.current(request, { status, headers: lines, body: bytes });
  const isRaw = typeof now.body === "string" || now.body instanceof Uint8Array;
  const headers: HeaderLine[] = Object.entries(now.headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map((value): HeaderLine => [name.toLowerCase(), value]),
  );
  for (const line of headers) checkLine(line);
  const isTyped = headers.some(([name]) => name === "content-type");
  if (!isRaw && now.body !== undefined && !isTyped) headers.push(["content-type", "application/json"]);
  headers.push(["cache-control", "no-store"], [replayedHeader, "true"]);
  return {
    kind: "reply",
    status: now.status ?? status,
    headers,
    body: isRaw ? (now.body as string | Uint8Array) : now.body === undefined ? "" : JSON.stringify(now.body),
  };
}

/** Throws the same error as Node for an invalid header, before anything is sent. */
function checkLine([name, value]: HeaderLine): void {
  if (TOKEN.test(name) && !NOT_IN_A_VALUE.test(value)) return;
  const error = new TypeError(`the response of current() has an invalid header: ${JSON.stringify(name)}`);
  throw Object.assign(error, { code: "ERR_INVALID_CHAR" });
}

function toLines(flat: readonly string[]): HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let i = 0; i < flat.length; i += 2) lines.push([flat[i] as string, flat[i + 1] as string]);
  return lines;
}
