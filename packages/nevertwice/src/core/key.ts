/**
 * Keys made of several parts. The joining is injective: two different lists of parts never make one key, whatever
 * characters they hold, and 1 is not "1". A key needs no randomness of its own if its parts already name one piece of
 * work; where it is made up instead, give it 16 random bytes (`crypto.randomUUID()`).
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "./errors.ts";
import { kindOf } from "./identity.ts";

export type KeyPart = string | number | bigint | boolean | null;

/** A key that remembers what it was made of. Guards take it wherever they take a string. */
export interface Key {
  /** What the guard uses. */
  readonly text: string;
  /** 16 hex digits for a log line. */
  readonly hash: string;
  /** For debugging: what the key was made of. */
  readonly parts: readonly KeyPart[];
  toString(): string;
}

/**
 * `compositeKey("order", 17, "refund")`. Fails with `key-invalid` on anything but text, numbers within 2^53, bigints,
 * booleans and null.
 */
export function compositeKey(...parts: readonly KeyPart[]): Key {
  if (parts.length === 0)
    throw new NevertwiceError("key-missing", "a composite key needs at least one part.");
  const text = parts.map(partText).join("|");
  return { text, hash: hash("sha256", text, "hex").slice(0, 16), parts: [...parts], toString: () => text };
}

/** The key of an event: who sent it, and the id the sender gave it. */
export function eventKey(event: { readonly source: KeyPart; readonly id: KeyPart }): Key {
  return compositeKey("event", event.source, event.id);
}

/** The key of something done to a resource: refund of payment 17, once for each `detail` (an amount, a version). */
export function actionKey(action: {
  readonly resource: KeyPart;
  readonly id: KeyPart;
  readonly action: KeyPart;
  readonly detail?: KeyPart;
}): Key {
  const parts = [action.resource, action.id, action.action];
  return compositeKey("action", ...parts, ...(action.detail === undefined ? [] : [action.detail]));
}

/** The key of a named operation on its arguments. */
export function operationKey(operation: {
  readonly operation: KeyPart;
  readonly arguments: readonly KeyPart[];
}): Key {
  return compositeKey("operation", operation.operation, ...operation.arguments);
}

/** Whether no other number that JSON can write was rounded to this one: beyond 2^53, `JSON.parse` makes one of several. */
export function isExact(number: number): boolean {
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER;
}

/**
 * The text of a composite key; anything else as it is, for the caller to judge. A composite key has a `toString` of its
 * own, which no parsed JSON has: an object that a client sends never passes for the key of the same text.
 */
export function keyText(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !Object.hasOwn(key, "toString")) return key;
  return typeof key.toString === "function" && "text" in key ? key.text : key;
}

/** The key that a message is sent under. Fails with `key-missing` or `key-invalid`. */
export function sendingKey(key: unknown, what: string): string {
  const text = keyText(key);
  if (text === undefined || text === null || text === "")
    throw new NevertwiceError("key-missing", `${what} is missing: what is sent once needs one.`);
  if (typeof text !== "string")
    throw new NevertwiceError("key-invalid", `${what} is ${kindOf(text)}; it must be a string.`);
  if (!text.isWellFormed()) throw new NevertwiceError("key-invalid", `${what} has a lone surrogate.`);
  return text;
}

/** Text stands as it is, but for `|` and `\` and a first character that would read as another type's mark. */
function partText(part: KeyPart, index: number): string {
  switch (typeof part) {
    case "string": {
      if (!part.isWellFormed()) throw invalid(index, "text with a lone surrogate");
      const escaped = part.replace(/[\\|]/g, "\\$&");
      return /^[#?~]/.test(escaped) ? `\\${escaped}` : escaped;
    }
    case "number":
      if (!isExact(part)) throw invalid(index, String(part));
      return `#${Object.is(part, -0) ? 0 : part}`;
    case "bigint":
      return `#${part}n`;
    case "boolean":
      return `?${part}`;
    default:
      if (part === null) return "~";
      throw invalid(index, kindOf(part));
  }
}

function invalid(index: number, found: string): NevertwiceError {
  return new NevertwiceError(
    "key-invalid",
    `part ${index} of the key is ${found}; parts are strings, numbers within 2^53, bigints, booleans or null. Give a larger number as a string or a bigint.`,
  );
}
