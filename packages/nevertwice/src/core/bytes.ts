/** Text and bytes, in the forms that records and messages have. */
import { utf8Bytes } from "#platform";

export { fromBase64, fromHex, toBase64, toHex, utf8Bytes } from "#platform";

/** Puts the length in front of the text, so that no two lists of texts join to the same text. */
export function lengthPrefixed(text: string): string {
  return `${utf8Bytes(text)}:${text}`;
}

/** All chunks as one array, without a copy if there is only one. */
export function concatBytes(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const [only] = chunks;
  if (only === undefined) return new Uint8Array();
  if (chunks.length === 1) return only;
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
