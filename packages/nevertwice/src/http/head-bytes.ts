/**
 * The bytes of heads that are not all ASCII. What a handler sets does not say what its client receives: node encodes a
 * head as UTF-8 if it goes out together with text, and as latin1 otherwise, and it rewrites `Content-Disposition` if it
 * knows the length of the body. So a value is kept as the bytes that were sent, one character a byte, and a replay sends
 * its head as latin1: then the replay has the same bytes, whatever its own body is.
 */
import { Buffer } from "node:buffer";
import type { HeaderLine } from "./exchange.ts";
import type { Chunk, Encoding } from "./held-body.ts";
import type { NodeResponse } from "./node-response.ts";

/** How a head is encoded on its way out. */
export type HeadEncoding = "utf8" | "latin1";

const BEYOND_ASCII = /[\u0080-\uffff]/;

export function isAscii(text: string): boolean {
  return !BEYOND_ASCII.test(text);
}

export function areAscii(lines: readonly HeaderLine[]): boolean {
  return lines.every(([, value]) => isAscii(value));
}

/** Whether node sends a head as UTF-8 if this is what follows it. */
export function isUtf8Text(chunk: Chunk, encoding: Encoding): boolean {
  return typeof chunk === "string" && (encoding === "utf8" || !encoding);
}

/** The lines with the bytes that their values are sent as, one character a byte. */
export function sentLines(lines: readonly HeaderLine[], encoding: HeadEncoding): readonly HeaderLine[] {
  return lines.map(([name, value]) => [name, asBytes(value, encoding)]);
}

/** The same, for a head that node has stored: its own text counts, since node may have changed a value. */
export function storedLines(
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
  const asStored = lines.map(([name, value]): HeaderLine => [name, stored.get(name)?.shift() ?? value]);
  return sentLines(asStored, encoding);
}

/** Sends the head that node has stored, before and apart from its body. */
export function sendHead(res: NodeResponse, encoding: HeadEncoding): void {
  if (res._header === null) return;
  res._header = asBytes(res._header, encoding);
  res._send("", "latin1");
}

function asBytes(text: string, encoding: HeadEncoding): string {
  return isAscii(text) ? text : Buffer.from(text, encoding).toString("latin1");
}
