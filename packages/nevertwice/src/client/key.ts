/** Keys: how one is made, and how it is written in its header. */
import { type ClientError, keyInvalid } from "./client-error.ts";

/** `string`: an RFC 9651 String, in double quotes. `bare`: without quotes, for servers that accept only this form. */
export type KeyFormat = "string" | "bare";

/** The longest key that services accept. */
const MAX_KEY_LENGTH = 255;

const PRINTABLE = /^[\x20-\x7e]+$/;
/** No space, comma, semicolon, quote or backslash: a server could take any of them for the end of the key. */
const UNAMBIGUOUS = /^[!#-+\--:<-[\]-~]+$/;

/** A version 4 UUID whose random digits are 0, or 8 where only two bits are random. */
const TEMPLATE = "00000000-0000-4000-8000-000000000000";

/** A version 4 UUID. Browsers have `randomUUID` only in secure contexts, but `getRandomValues` everywhere. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(TEMPLATE.length));
  return TEMPLATE.replace(/[08]/g, (digit, at: number) => {
    const bits = (bytes[at] as number) & (digit === "8" ? 3 : 15);
    return (Number(digit) | bits).toString(16);
  });
}

/** Where keys come from, and how they are written. */
export interface KeySource {
  readonly newKey: () => string;
  readonly format: KeyFormat;
}

/** A new key. Throws `key-invalid` if `newKey` returns an invalid one. */
export function createKey({ newKey, format }: KeySource): string {
  const key = newKey();
  keyHeaderValue(key, format);
  return key;
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

function invalid(reason: string): ClientError<"key-invalid"> {
  return keyInvalid(`the key cannot be sent: ${reason}.`);
}
