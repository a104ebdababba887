/** Keys: how one is made, and how it is written in its header. */
import { NevertwiceError } from "../core/errors.ts";

/** `string`: an RFC 9651 String, in double quotes. `bare`: without quotes, for servers that accept only this form. */
export type KeyFormat = "string" | "bare";

/** The longest key that services accept. */
const MAX_KEY_LENGTH = 255;

const PRINTABLE = /^[\x20-\x7e]+$/;
/** No space, comma, semicolon, quote or backslash: a server could take any of them for the end of the key. */
const UNAMBIGUOUS = /^[!#-+\--:<-[\]-~]+$/;

/** A version 4 UUID. Browsers have `randomUUID` only in secure contexts, but `getRandomValues` everywhere. */
export function randomKey(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Throws `key-invalid` for a key that servers could read differently. */
export function keyHeaderValue(key: string, format: KeyFormat): string {
  if (typeof key !== "string" || key === "") throw invalid("it is empty or not a string");
  if (key.length > MAX_KEY_LENGTH) throw invalid(`it is longer than ${MAX_KEY_LENGTH} characters`);
  if (!PRINTABLE.test(key)) throw invalid("it contains characters other than printable ASCII");
  if (format === "string") return `"${key.replace(/["\\]/g, "\\$&")}"`;
  if (!UNAMBIGUOUS.test(key))
    throw invalid('with format: "bare", it must not contain a space, comma, semicolon, quote or backslash');
  return key;
}

function invalid(reason: string): NevertwiceError {
  return new NevertwiceError("key-invalid", `the key cannot be sent: ${reason}.`);
}
