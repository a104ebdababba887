/**
 * What `node.ts` has, for platforms without Node's modules: Cloudflare Workers, Vercel's edge runtime, browsers. The digest
 * of Web Crypto is asynchronous and ids are not, so SHA-256 and SHA-1 come from a library.
 */
import { sha1 as nobleSha1 } from "@noble/hashes/legacy.js";
import { sha256 as nobleSha256 } from "@noble/hashes/sha2.js";
import type { DigestEncoding, SignatureCheck, SignatureDigest } from "./node.ts";

const encoder = /* @__PURE__ */ new TextEncoder();
const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Workers forbid it: an isolate serves many requests at once, but a timer, a connection or a promise belongs to the request
 * that made it. Another request that waits for it fails or hangs, and it ends with its own request.
 */
export const canShareAcrossCalls: boolean = false;

/** The SHA-256 of bytes, or of text in UTF-8. */
export function sha256(data: string | Uint8Array, encoding: DigestEncoding): string {
  const bytes = nobleSha256(typeof data === "string" ? encoder.encode(data) : data);
  if (encoding === "hex") return toHex(bytes);
  return encoding === "base64" ? toBase64(bytes) : toBase64url(bytes);
}

/** The SHA-1 of text in UTF-8, as hex: Redis names scripts by it. */
export function sha1(text: string): string {
  return toHex(nobleSha1(encoder.encode(text)));
}

/** Returns a function that gives unguessable text, with `size` random bytes each time. */
export function createRandomText(size: number): () => string {
  return () => toBase64url(crypto.getRandomValues(new Uint8Array(size)));
}

export function newUuid(): string {
  return crypto.randomUUID();
}

/** The length of the text in UTF-8. */
export function utf8Bytes(text: string): number {
  return encoder.encode(text).length;
}

/** The text in UTF-8. */
export function toUtf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

/** The text of bytes in UTF-8. Undefined if they are not UTF-8. */
export function fromUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** More arguments than this could exceed the stack. */
const CHUNK = 8_192;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK)
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(text);
}

/** Also takes the alphabet for URLs, and text without padding. Characters that are in neither alphabet are left out. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const plain = text
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replaceAll(/[^A-Za-z0-9+/]/g, "");
  // Six bits alone are no byte.
  const whole = plain.length % 4 === 1 ? plain.slice(0, -1) : plain;
  return Uint8Array.from(atob(whole), (character) => character.charCodeAt(0));
}

function toBase64url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** `text` has only hexadecimal digits, two for each byte. */
export function fromHex(text: string): Uint8Array {
  return Uint8Array.from({ length: text.length / 2 }, (_, byte) =>
    Number.parseInt(text.slice(2 * byte, 2 * byte + 2), 16),
  );
}

/** `key` is the secret of an HMAC, or a public key of 32 bytes. */
export function createSignatureCheck(digest: SignatureDigest, key: Uint8Array): SignatureCheck {
  const hash = digest === "hmac-sha1" ? "SHA-1" : "SHA-256";
  const algorithm = digest === "ed25519" ? { name: "Ed25519" } : { name: "HMAC", hash };
  const bytes = new Uint8Array(key);
  return async (signed, signature) => {
    const imported = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    return crypto.subtle.verify(algorithm, imported, new Uint8Array(signature), new Uint8Array(signed));
  };
}

/**
 * Unpacks bytes in a content coding of HTTP. Undefined if the runtime does not know the coding, if the bytes are malformed,
 * or if they unpack to more than `maxBytes`.
 */
export async function unpack(
  coding: string,
  bytes: Uint8Array,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  try {
    const packed = new Response(bytes as Uint8Array<ArrayBuffer>).body as ReadableStream<Uint8Array>;
    // Throws for a coding that the runtime does not know.
    const unpacking = new DecompressionStream((coding === "br" ? "brotli" : coding) as "gzip");
    return await readUpTo(packed.pipeThrough(unpacking), maxBytes);
  } catch {
    return undefined;
  }
}

async function readUpTo(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value as Uint8Array<ArrayBuffer>);
    size += value.length;
    if (size <= maxBytes) continue;
    await reader.cancel();
    return undefined;
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}
