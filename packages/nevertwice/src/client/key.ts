/** Keys: how one is made, and how it is written in its header. */
import { NevertwiceError } from "../core/errors.ts";

/** `string`: as RFC 9651 writes a String, in double quotes. `bare`: as it is, for servers that know no other form. */
export type KeyFormat = "string" | "bare";

/** What services take at most. */
const MAX_KEY_LENGTH = 255;

const PRINTABLE = /^[\x20-\x7e]+$/;
/** No space, comma or semicolon, no quote, no backslash: a server could take any of them for the end of the key. */
const UNAMBIGUOUS = /^[!#-+\--:<-[\]-~]+$/;

/** A version 4 UUID. Outside secure contexts browsers have no `randomUUID`, but random bytes they have everywhere. */
export function randomKey(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Fails with `key-invalid` on a key that cannot be written so that every server reads the same one. */
export function keyHeaderValue(key: string, format: KeyFormat): string {
  if (typeof key !== "string" || key === "") throw invalid("it is empty, or no text");
  if (key.length > MAX_KEY_LENGTH) throw invalid(`it is longer than ${MAX_KEY_LENGTH} characters`);
  if (!PRINTABLE.test(key)) throw invalid("it holds something else than printable ASCII");
  if (format === "string") return `"${key.replace(/["\\]/g, "\\$&")}"`;
  if (!UNAMBIGUOUS.test(key))
    throw invalid("without quotes around it, a space, comma, semicolon, quote or backslash is ambiguous");
  return key;
}

function invalid(reason: string): NevertwiceError {
  return new NevertwiceError("key-invalid", `the key cannot be sent: ${reason}.`);
}
