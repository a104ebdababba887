/** The length of text in UTF-8, and bytes as base64. Uses Node's Buffer where the platform has it. */

const hasBuffer = typeof Buffer === "function";
const encoder = new TextEncoder();

export function utf8Bytes(text: string): number {
  return hasBuffer ? Buffer.byteLength(text) : encoder.encode(text).length;
}

/** Puts the length in front of the text, so that no two lists of texts join to the same text. */
export function lengthPrefixed(text: string): string {
  return `${utf8Bytes(text)}:${text}`;
}

export function toBase64(bytes: Uint8Array): string {
  if (hasBuffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  // A copy, since small Buffers share one ArrayBuffer, and the caller may read `buffer`.
  if (hasBuffer) return new Uint8Array(Buffer.from(text, "base64"));
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
