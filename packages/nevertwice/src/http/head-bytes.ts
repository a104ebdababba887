/**
 * The bytes of heads that are not all ASCII. The string that a handler sets does not determine the bytes that its client
 * receives: Node encodes a head as UTF-8 if it sends it together with text, and as latin1 otherwise; and it rewrites
 * `Content-Disposition` if it knows the length of the body. A kept value therefore holds the bytes that were sent, one
 * character for each byte, and a replay sends its head as latin1. So the replay has the same bytes, whatever its body is.
 */
import { toUtf8 } from "#platform";
import type { Chunk, Encoding } from "./held-body.ts";
import type { HeaderLine } from "./http-message.ts";
import { hasBody, isHttp2, type NodeResponse } from "./node-response.ts";

/** How Node encodes a head. */
export type HeadEncoding = "utf8" | "latin1";

const BEYOND_ASCII = /[\u0080-\uffff]/;
const BEYOND_LATIN1 = /[\u0100-\uffff]/g;

function isAscii(text: string): boolean {
  return !BEYOND_ASCII.test(text);
}

export function areAscii(lines: readonly HeaderLine[]): boolean {
  return lines.every(([, value]) => isAscii(value));
}

/** The lines with their values as the bytes that are sent, one character for each byte. */
export function sentLines(lines: readonly HeaderLine[], encoding: HeadEncoding): readonly HeaderLine[] {
  return lines.map(([name, value]) => [name, asBytes(value, encoding)]);
}

/** Sends the head that Node has stored, separately from its body. */
export function sendHead(res: NodeResponse, encoding: HeadEncoding): void {
  // In other runtimes, the response of `node:http` may not store a head.
  if (typeof res._header !== "string") return;
  res._header = asBytes(res._header, encoding);
  res._send("", "latin1");
}

/**
 * A handler that writes only bytes sets this on its response. Then the head is sent as latin1, which is otherwise unknown
 * until the first write. The gateway of `@nevertwice/server` sets it.
 */
const WRITES_BYTES = Symbol.for("nevertwice.writes-bytes");

/** Finds out how the head of a held response will be encoded. That depends on what is written after it. */
export class HeadBytes {
  /** Whether the handler has flushed the head. */
  isFlushed = false;
  #isBeforeText: boolean | undefined;
  #encoding: HeadEncoding | undefined;

  /** Notes what is written after the head. Only the first call counts. */
  follow(chunk: Chunk | null | undefined, encoding: Encoding): void {
    this.#isBeforeText ??= Boolean(chunk) && typeof chunk === "string" && (encoding === "utf8" || !encoding);
  }

  /** The lines as they will be sent. This fixes the encoding, so that what is kept equals what is sent. */
  settle(res: NodeResponse, lines: readonly HeaderLine[]): readonly HeaderLine[] {
    const { _header: head } = res;
    // HTTP/2 sends every head separately, as latin1.
    if (isHttp2(res) || typeof head !== "string" || isAscii(head)) return lines;
    // If the handler has written nothing after the head yet, text is assumed to follow.
    const isWithText = hasBody(res) && !res.chunkedEncoding && this.#isBeforeText !== false;
    const isBytes = (res as { readonly [WRITES_BYTES]?: true })[WRITES_BYTES] === true;
    this.#encoding = !isBytes && (this.isFlushed || isWithText) ? "utf8" : "latin1";
    return storedLines(lines, head, this.#encoding);
  }

  /** Sends the head in the encoding that `settle` chose. A head that is all ASCII is sent with its body. */
  send(res: NodeResponse): void {
    if (this.#encoding !== undefined) sendHead(res, this.#encoding);
  }
}

/**
 * The lines of a head that Node has stored. Node may have changed a value that is not ASCII, so the stored text counts
 * for those. Any other change was made by an outer layer, which makes it again on a replay.
 */
function storedLines(
  lines: readonly HeaderLine[],
  head: string,
  encoding: HeadEncoding,
): readonly HeaderLine[] {
  const stored = new Map<string, string[]>();
  for (const line of head.split("\r\n").slice(1)) {
    const colon = line.indexOf(": ");
    const name = line.slice(0, colon).toLowerCase();
    stored.set(name, [...(stored.get(name) ?? []), line.slice(colon + 2)]);
  }
  const asStored = lines.map(([name, value]): HeaderLine => {
    const text = stored.get(name)?.shift() ?? value;
    return [name, isAscii(value) ? value : text];
  });
  return sentLines(asStored, encoding);
}

function asBytes(text: string, encoding: HeadEncoding): string {
  if (isAscii(text)) return text;
  if (encoding === "utf8") return Array.from(toUtf8(text), (byte) => String.fromCharCode(byte)).join("");
  // Node sends the low byte of a character that latin1 lacks.
  return text.replace(BEYOND_LATIN1, (character) => String.fromCharCode(character.charCodeAt(0) & 0xff));
}
