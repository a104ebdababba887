/** Text to bytes and back. Node's Buffer, where there is one, takes small pieces from a shared slab: far cheaper. */

const hasBuffer = typeof Buffer === "function";
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function toUtf8(text: string): Uint8Array {
  return hasBuffer ? Buffer.from(text) : encoder.encode(text);
}

export function fromUtf8(bytes: Uint8Array, start: number, end: number): string {
  if (!hasBuffer) return decoder.decode(bytes.subarray(start, end));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8", start, end);
}

/** A copy that shares nothing with its original. (A Buffer's own `slice` would.) */
export function copyOf(bytes: Uint8Array): Uint8Array {
  return hasBuffer ? Buffer.from(bytes) : bytes.slice();
}
