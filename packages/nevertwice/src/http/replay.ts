/** Kept responses and their replays: status, allow-listed headers, and the exact bytes of the body. */
import { fromUtf8, toUtf8 } from "#platform";
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
  /**
   * The HTTP status.
   * @default the status of the first answer
   */
  readonly status?: number;
  /** The headers, by name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Strings and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
}

/** A refusal in the application's own form. The status stays, and so does `Retry-After`. */
export type OwnRefusal = Omit<CurrentResponse, "status">;

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

/** Says that the body was not kept: of a replay, or of the first response, whose retry would get no body. */
export const NOT_KEPT_LINE: HeaderLine = ["nevertwice-outcome", "not-kept"];

/** Statuses of responses that never have a body: without one they are whole. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** Headers that describe the bytes of a body, and are wrong without them. */
export const ABOUT_THE_BODY = new Set(["content-encoding", "content-range", ...ABOUT_THE_BYTES]);

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
  const body = keptBody(response, how.isMarker);
  return how.answersUntil === undefined
    ? [response.status, headers, body]
    : [response.status, headers, body, how.answersUntil];
}

function keptBody({ status, body }: HttpResponse, isMarker: boolean): KeptResponse[2] {
  if (WITHOUT_BODY.has(status)) return "";
  return isMarker || body === undefined ? null : bodyText(body);
}

/** A response as people write it. A string is sent as UTF-8. */
export interface GivenResponse {
  /** The HTTP status. */
  readonly status: number;
  /** The header lines. */
  readonly headers?: readonly HeaderLine[];
  /** The body; empty if it is left out. */
  readonly body?: string | Uint8Array;
}

/**
 * The value of a request that was done, for `reconcile` and `guard.resolve`: retries get this response. Headers that are not
 * replayed are left out.
 */
export function keptResponse(
  { status, headers = [], body = "" }: GivenResponse,
  {
    replayHeaders = [],
    answersUntil,
  }: {
    /**
     * Headers that are replayed in addition to those that always are.
     * @default []
     */
    readonly replayHeaders?: readonly string[];
    /**
     * Until when the answer is replayed, in milliseconds since the epoch.
     * @default the end of its retention
     */
    readonly answersUntil?: number;
  } = {},
): KeptResponse {
  const bytes = typeof body === "string" ? toUtf8(body) : body;
  return toKeptResponse(
    { status, headers, body: bytes },
    {
      chosen: new Set(replayHeaders.map((name) => name.toLowerCase())),
      isMarker: false,
      answersUntil,
      accepted: () => undefined,
    },
  );
}

/** The same without its body: for a response that is too large to keep. */
export function withoutBody([status, headers, , answersUntil]: KeptResponse): KeptResponse {
  return answersUntil === undefined ? [status, headers, null] : [status, headers, null, answersUntil];
}

/** A string if the bytes are UTF-8: it is smaller, and people can read it. Otherwise the bytes. */
function bodyText(bytes: Uint8Array): string | Uint8Array {
  const text = fromUtf8(bytes);
  // Not every store can keep a NUL in a text, so it would be escaped, and take six times as much.
  return text === undefined || text.includes("\0") ? bytes : text;
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

/** A stored response for people and their tools. */
export interface StoredHttpResponse {
  /** The HTTP status. */
  readonly status: number;
  /** Names are in lower case. */
  readonly headers: readonly HeaderLine[];
  /** Text if the bytes are UTF-8; undefined if the body was not stored. */
  readonly body: string | Uint8Array | undefined;
}

/** The response that a stored outcome is: `value` of an outcome whose `kind` is `value`. Undefined if it has another form. */
export function storedResponse(value: unknown): StoredHttpResponse | undefined {
  const kept = readKept(value);
  if (kept === undefined) return undefined;
  const [status, headers, body] = kept;
  return { status, headers: toLines(headers), body: body ?? undefined };
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
  if (body === null) headers.push(NOT_KEPT_LINE);
  return { kind: "reply", status, headers, body: body ?? "" };
}

export function withLines(reply: HttpReply, lines: readonly HeaderLine[]): HttpReply {
  return lines.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...lines] };
}

/** Whether a header adds to the value that an outer layer has set, instead of replacing it: CORS headers and `Vary`. */
export function isAdditive(name: string): boolean {
  return name.startsWith("access-control-") || name === "vary";
}

/** Headers and body that the application has chosen. Throws for a header that cannot be sent. */
export function ownContent({ headers: given = {}, body }: OwnRefusal): {
  readonly headers: HeaderLine[];
  readonly body: string | Uint8Array;
} {
  const headers: HeaderLine[] = Object.entries(given).flatMap(([name, values]) =>
    [values].flat().map((value): HeaderLine => [name.toLowerCase(), value]),
  );
  for (const line of headers) checkLine(line);
  if (typeof body === "string" || body instanceof Uint8Array) return { headers, body };
  if (body === undefined) return { headers, body: "" };
  const isTyped = headers.some(([name]) => name === "content-type");
  if (!isTyped) headers.push(["content-type", "application/json"]);
  return { headers, body: JSON.stringify(body) };
}

/** Throws the same error as Node for an invalid header, before anything is sent. */
function checkLine([name, value]: HeaderLine): void {
  if (TOKEN.test(name) && !NOT_IN_A_VALUE.test(value)) return;
  const error = new TypeError(`the response of current() has an invalid header: ${JSON.stringify(name)}`);
  throw Object.assign(error, { code: "ERR_INVALID_CHAR" });
}

export function toLines(flat: readonly string[]): HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let i = 0; i < flat.length; i += 2) lines.push([flat[i] as string, flat[i + 1] as string]);
  return lines;
}
