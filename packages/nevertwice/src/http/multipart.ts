/**
 * The meaning of a `multipart/form-data` body: its parts in order, without the boundary. Only a body that every parser
 * reads in the same way is split into parts. A body with a padded delimiter, with text before the first part or after the
 * last one, or with a folded or repeated header is compared by its bytes.
 */
import { sha256 } from "#platform";
import { readParameters, trimBlanks } from "./header-parameters.ts";

/** The parameters of `Content-Disposition`, the other headers by lower-case name, and the content's SHA-256 in base64. */
export type FormPart = readonly [
  disposition: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>>,
  digest: string,
];

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** RFC 2046, section 5.1.1. */
const BOUNDARY = /^[\w'()+,\-./:=? ]{0,69}[\w'()+,\-./:=?]$/;
const HEADER_NAME = /^[\w!#$%&'*+\-.^`|~]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a header must not contain control characters.
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;
/** Longer than the head of a part from any known client. */
const MAX_HEAD_BYTES = 16_384;
const LINE_END = encoder.encode("\r\n");
const BLANK_LINE = encoder.encode("\r\n\r\n");
const CLOSING = encoder.encode("--");

/** A part as it was sent. */
export interface RawPart {
  readonly disposition: ReadonlyMap<string, string>;
  /** The other headers, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly content: Uint8Array;
}

/** Undefined for a body that must be compared by its bytes. */
export function readParts(body: Uint8Array, boundary: string): readonly FormPart[] | undefined {
  return splitParts(body, boundary)?.map(({ disposition, headers, content }) => [
    Object.fromEntries(disposition),
    Object.fromEntries(headers),
    sha256(content, "base64"),
  ]);
}

/** Undefined for a body that parsers could split differently. */
export function splitParts(body: Uint8Array, boundary: string): readonly RawPart[] | undefined {
  if (!BOUNDARY.test(boundary)) return undefined;
  const delimiter = encoder.encode(`\r\n--${boundary}`);
  // The first delimiter has no line break in front of it.
  if (!isAt(body, delimiter.subarray(LINE_END.length), 0)) return undefined;
  const parts: RawPart[] = [];
  let at = delimiter.length - LINE_END.length;
  while (true) {
    if (isAt(body, CLOSING, at)) return isLast(body, at + CLOSING.length) ? parts : undefined;
    // A line that starts with the delimiter and continues is a delimiter to some parsers and content to others.
    if (!isAt(body, LINE_END, at)) return undefined;
    const end = findBytes(body, delimiter, at);
    if (end === -1) return undefined;
    const part = readPart(body.subarray(at + LINE_END.length, end));
    if (part === undefined) return undefined;
    parts.push(part);
    at = end + delimiter.length;
  }
}

function isLast(body: Uint8Array, at: number): boolean {
  return at === body.length || (at + LINE_END.length === body.length && isAt(body, LINE_END, at));
}

function readPart(bytes: Uint8Array): RawPart | undefined {
  const headEnd = findBytes(bytes, BLANK_LINE, 0);
  if (headEnd === -1 || headEnd > MAX_HEAD_BYTES) return undefined;
  const headers = readHeaders(bytes.subarray(0, headEnd));
  const disposition = readParameters(headers?.get("content-disposition") ?? "");
  if (headers === undefined || disposition?.value !== "form-data") return undefined;
  if (!disposition.parameters.has("name")) return undefined;
  headers.delete("content-disposition");
  return {
    disposition: disposition.parameters,
    headers,
    content: bytes.subarray(headEnd + BLANK_LINE.length),
  };
}

function readHeaders(bytes: Uint8Array): Map<string, string> | undefined {
  const headers = new Map<string, string>();
  for (const line of (decodeText(bytes) ?? "").split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    const value = line.slice(colon + 1);
    if (!HEADER_NAME.test(name) || CONTROL.test(value) || headers.has(name)) return undefined;
    headers.set(name, trimBlanks(value));
  }
  return headers;
}

function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function isAt(bytes: Uint8Array, wanted: Uint8Array, at: number): boolean {
  if (at + wanted.length > bytes.length) return false;
  for (let i = 0; i < wanted.length; i++) if (bytes[at + i] !== wanted[i]) return false;
  return true;
}

function findBytes(bytes: Uint8Array, wanted: Uint8Array, from: number): number {
  const first = wanted[0] as number;
  let at = bytes.indexOf(first, from);
  while (at !== -1 && !isAt(bytes, wanted, at)) at = bytes.indexOf(first, at + 1);
  return at;
}
