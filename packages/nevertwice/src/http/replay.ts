/** What is kept of an answer and how it is handed back: status, allow-listed headers, and the body to the byte. */
import { Buffer, isUtf8 } from "node:buffer";
import type { HeaderLine, HttpResponse, Reply } from "./exchange.ts";

/**
 * An answer as it is kept: status, header names and values in turn, and the body: as text if that is what its bytes
 * are, null if only the fact was kept. The last says until when it is replayed, where that ends before its retention.
 */
export type KeptResponse = readonly [
  status: number,
  headers: readonly string[],
  body: string | Uint8Array | null,
  answersUntil?: number,
];

/** An answer to send instead of the kept one. */
export interface CurrentResponse {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Text and bytes as they are; anything else as JSON. */
  readonly body?: unknown;
}

/** A replay that is made anew from what the handler did then. */
export interface Current<Native> {
  readonly current: (
    request: Native,
    kept: { readonly status: number; readonly headers: readonly HeaderLine[]; readonly body: Uint8Array },
  ) => CurrentResponse | PromiseLike<CurrentResponse>;
}

/** `replay: current(fn)`: a duplicate is answered by `fn`, from the state as it is now. */
export function current<Native>(read: Current<Native>["current"]): Current<Native> {
  return { current: read };
}

/** Besides all that begins with `content-`. */
const REPLAYED = new Set(["location", "etag", "last-modified", "link"]);

/** What belongs to one connection, one client or one moment, and is never handed to another request. */
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

/** What speaks of the very bytes of a body, and is untrue without them. */
const ABOUT_THE_BODY = new Set(["content-encoding", "content-range", "content-digest", "content-md5"]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be in a header.
const NOT_IN_A_VALUE = /[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/;

export function isReplayed(name: string, chosen: ReadonlySet<string>): boolean {
  if (NEVER_REPLAYED.has(name)) return false;
  return name.startsWith("content-") || REPLAYED.has(name) || chosen.has(name);
}

/** What is kept of an answer; `isMarker` keeps no body. */
export function keptOf(
  response: HttpResponse,
  chosen: ReadonlySet<string>,
  isMarker: boolean,
  answersUntil: number | undefined,
): KeptResponse {
  const headers: string[] = [];
  for (const [name, value] of response.headers) {
    const lower = name.toLowerCase();
    if (isReplayed(lower, chosen) && TOKEN.test(lower) && !NOT_IN_A_VALUE.test(value))
      headers.push(lower, value);
  }
  const body = isMarker || response.body === undefined ? null : bodyText(response.body);
  return answersUntil === undefined
    ? [response.status, headers, body]
    : [response.status, headers, body, answersUntil];
}

/** The same without its body: for what is too large to keep after all. */
export function withoutBody([status, headers, , answersUntil]: KeptResponse): KeptResponse {
  return answersUntil === undefined ? [status, headers, null] : [status, headers, null, answersUntil];
}

/** Text where the bytes are UTF-8, since that is smaller and people can read it; else the bytes. */
function bodyText(bytes: Uint8Array): string | Uint8Array {
  if (!isUtf8(bytes)) return bytes;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** What was kept, if it is an answer of ours and whole: what lies in a store is not trusted to be so. */
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

/** Hands a kept answer back. Shared caches must not keep it, unless the application chose to replay its own word on that. */
export function replayReply([status, kept, body]: KeptResponse, replayedHeader: string): Reply {
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

/** What the application answers now, marked as a replay. */
export async function currentReply<Native>(
  replay: Current<Native>,
  request: Native,
  [status, flat, body]: KeptResponse,
  replayedHeader: string,
): Promise<Reply> {
  const lines = linesOf(flat);
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

/** Refuses what node refuses, in the same way, before anything is sent. */
function checkLine([name, value]: HeaderLine): void {
  if (TOKEN.test(name) && !NOT_IN_A_VALUE.test(value)) return;
  const error = new TypeError(`the answer of today has an invalid header: ${JSON.stringify(name)}`);
  throw Object.assign(error, { code: "ERR_INVALID_CHAR" });
}

function linesOf(flat: readonly string[]): HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let i = 0; i < flat.length; i += 2) lines.push([flat[i] as string, flat[i + 1] as string]);
  return lines;
}
