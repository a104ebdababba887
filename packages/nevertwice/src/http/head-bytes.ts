/**
 * The bytes of heads that are not all ASCII. What a handler sets does not say what its client receives: node encodes a
 * head as UTF-8 if it goes out together with text, and as latin1 otherwise, and it rewrites `Content-Disposition` if it
 * knows the length of the body. So a value is kept as the bytes that were sent, one character a byte, and a replay sends
 * its head as latin1: then the replay has the same bytes, whatever its own body is.
 */
import { Buffer } from "node:buffer";
import type { HeaderLine } from "./exchange.ts";
import type { Chunk, Encoding } from "./held-body.ts";
import { hasBody, isHttp2, type NodeResponse } from "./node-response.ts";

/** How a head is encoded on its way out. */
export type HeadEncoding = "utf8" | "latin1";

const BEYOND_ASCII = /[\u0080-\uffff]/;

function isAscii(text: string): boolean {
  return !BEYOND_ASCII.test(text);
}

export function areAscii(lines: readonly HeaderLine[]): boolean {
  return lines.every(([, value]) => isAscii(value));
}

/** The lines with the bytes that their values are sent as, one character a byte. */
export function sentLines(lines: readonly HeaderLine[], encoding: HeadEncoding): readonly HeaderLine[] {
  return lines.map(([name, value]) => [name, asBytes(value, encoding)]);
}

/** Sends the head that node has stored, before and apart from its body. */
export function sendHead(res: NodeResponse, encoding: HeadEncoding): void {
  // Node's response as other runtimes have it may store no head.
  if (typeof res._header !== "string") return;
  res._header = asBytes(res._header, encoding);
  res._send("", "latin1");
}

/**
 * Set on a response by a handler that writes no text. Then its head is known to go out as latin1 also where it has to be
 * told before anything was written.
 */
const WRITES_BYTES = Symbol.for("nevertwice.writes-bytes");

/** How the head of a response that is held back will be sent, by what is known to follow it. */
export class HeadBytes {
  /** Whether the handler sent the head by itself. */
  isFlushed = false;
  #isBeforeText: boolean | undefined;
  #encoding: HeadEncoding | undefined;

  /** What comes after the head; the first time counts. */
  follow(chunk: Chunk | null | undefined, encoding: Encoding): void {
    this.#isBeforeText ??= Boolean(chunk) && typeof chunk === "string" && (encoding === "utf8" || !encoding);
  }

  /** The lines as they will be sent. From here on it is fixed how they are, so that what is kept is what is sent. */
  settle(res: NodeResponse, lines: readonly HeaderLine[]): readonly HeaderLine[] {
    const { _header: head } = res;
    // HTTP/2 sends a head by itself, as latin1.
    if (isHttp2(res) || typeof head !== "string" || isAscii(head)) return lines;
    // Where the handler has written nothing but the head, text is taken for what will follow.
    const isWithText = hasBody(res) && !res.chunkedEncoding && this.#isBeforeText !== false;
    const isBytes = (res as { readonly [WRITES_BYTES]?: true })[WRITES_BYTES] === true;
    this.#encoding = !isBytes && (this.isFlushed || isWithText) ? "utf8" : "latin1";
    return storedLines(lines, head, this.#encoding);
  }

  /** Sends the head as it was settled. One that is all ASCII goes out with its body. */
  send(res: NodeResponse): void {
    if (this.#encoding !== undefined) sendHead(res, this.#encoding);
  }
}

/**
 * The lines of a head that node has stored. Node may have changed a value beyond ASCII, so its text counts for those; a
 * change of any other is the work of an outer layer, which does it again on a replay.
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
  return isAscii(text) ? text : Buffer.from(text, encoding).toString("latin1");
}
