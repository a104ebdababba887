/**
 * What `node.ts` has, for platforms without `node:crypto`: Cloudflare Workers, Vercel's edge runtime, browsers. The digest
 * of Web Crypto is asynchronous and ids are not, so SHA-256 comes from a library.
 */
import { sha256 as digest } from "@noble/hashes/sha2.js";
import type { DigestEncoding } from "./node.ts";

const encoder = new TextEncoder();

/** The SHA-256 of bytes, or of text in UTF-8. */
export function sha256(data: string | Uint8Array, encoding: DigestEncoding): string {
  const bytes = digest(typeof data === "string" ? encoder.encode(data) : data);
  return encoding === "hex" ? toHex(bytes) : toBase64url(bytes);
}

/** Returns a function that gives unguessable text, with `size` random bytes each time. */
export function createRandomText(size: number): () => string {
  return () => toBase64url(crypto.getRandomValues(new Uint8Array(size)));
}

function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

function toBase64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
