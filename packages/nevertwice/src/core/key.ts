/**
 * Keys made of several parts. Two different lists of parts never give the same key, whatever characters they contain, and
 * the number 1 differs from the text "1". A key whose parts name one piece of work needs nothing random. Otherwise use
 * 16 random bytes (`crypto.randomUUID()`).
 */
import { sha256 } from "#platform";
import { toBase64 } from "./bytes.ts";
import { NevertwiceError } from "./errors.ts";
import { describeType } from "./identity.ts";

/**
 * What a key can be made of. Text, numbers, bigints, booleans, null, dates and bytes with the same content
 * give the same key.
 */
export type KeyPart = string | number | bigint | boolean | null | Date | Uint8Array | ArrayBuffer;

/** A key with the parts that it was made of. Guards accept it wherever they accept a string. */
export interface Key {
  /** The text that the guard uses as the key. */
  readonly text: string;
  /** 16 hex digits for a log line. */
  readonly hash: string;
  /** For debugging: the parts of the key. */
  readonly parts: readonly KeyPart[];
  /** The text of the key, so that a template or `String(key)` works. */
  toString(): string;
}

/**
 * `compositeKey("order", 17, "refund")`. Throws `key-invalid` for a part other than text, a number within 2^53, a bigint, a
 * boolean, null, a valid date or bytes. Equal bytes give the same key, whatever kind of array or buffer holds them.
 * @throws `key-missing`
 */
export function compositeKey(...parts: readonly KeyPart[]): Key {
  if (parts.length === 0)
    throw new NevertwiceError("key-missing", "a composite key needs at least one part.");
  const text = parts.map(partText).join("|");
  return {
    text,
    // Few callers read it.
    get hash() {
      return sha256(text, "hex").slice(0, 16);
    },
    parts: [...parts],
    toString: () => text,
  };
}

/** The key of an event, from its source and the id that the source gave it. */
export function eventKey(event: {
  /** Who sends the event: a provider, a topic, a URL. */
  readonly source: KeyPart;
  /** The id that the source gave the event. A redelivery has the same id. */
  readonly id: KeyPart;
}): Key {
  return compositeKey("event", event.source, event.id);
}

/** The key of an action on a resource, such as the refund of payment 17, once for each `detail` (an amount, a version). */
export function actionKey(action: {
  /** The kind of the resource, such as `"payment"`. */
  readonly resource: KeyPart;
  /** Which resource of that kind. */
  readonly id: KeyPart;
  /** What is done to it, such as `"refund"`. */
  readonly action: KeyPart;
  /**
   * Tells several actions of the same kind apart: an amount, a version. Without it, the action happens once
   * for the resource.
   */
  readonly detail?: KeyPart;
}): Key {
  const parts = [action.resource, action.id, action.action];
  return compositeKey("action", ...parts, ...(action.detail === undefined ? [] : [action.detail]));
}

/** The key of a named operation on its arguments. */
export function operationKey(operation: {
  /** The name of the operation. */
  readonly operation: KeyPart;
  /** Its arguments, in order. The same operation with the same arguments has the same key. */
  readonly arguments: readonly KeyPart[];
}): Key {
  return compositeKey("operation", operation.operation, ...operation.arguments);
}

/** Whether the number is exact. Beyond 2^53, `JSON.parse` rounds several numbers to the same one. */
export function isExact(number: number): boolean {
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER;
}

/**
 * The text of a composite key; any other value is returned unchanged, for the caller to check. A composite key has its own
 * `toString`, which parsed JSON never has, so an object that a client sends is never mistaken for a key.
 */
export function keyText(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !Object.hasOwn(key, "toString")) return key;
  return typeof key.toString === "function" && "text" in key ? key.text : key;
}

/** The key that a message is sent with. Throws `key-missing` or `key-invalid`. */
export function sendingKey(key: unknown, what: string): string {
  const text = keyText(key);
  if (text === undefined || text === null || text === "")
    throw new NevertwiceError("key-missing", `${what} is missing: a message that is sent once needs a key.`);
  if (typeof text !== "string")
    throw new NevertwiceError("key-invalid", `${what} is ${describeType(text)}; it must be a string.`);
  if (!text.isWellFormed())
    throw new NevertwiceError(
      "key-invalid",
      `${what} contains a lone surrogate; it must be well-formed Unicode.`,
    );
  return text;
}

/** Text is used unchanged, except that `|`, `\` and a first character that marks another type are escaped. */
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
      return objectText(part, index);
  }
}

/** These begin with `~`, the mark of null. Text that begins with `~` is escaped, so nothing else can. */
function objectText(part: Exclude<KeyPart, string | number | bigint | boolean>, index: number): string {
  if (part === null) return "~";
  if (part instanceof Date) {
    if (Number.isNaN(part.getTime())) throw invalid(index, "an invalid date");
    return `~d${part.getTime()}`;
  }
  if (part instanceof Uint8Array) return `~b${toBase64(part)}`;
  if (part instanceof ArrayBuffer) return `~b${toBase64(new Uint8Array(part))}`;
  throw invalid(index, describeType(part));
}

/** Whether `keyFrom` may use the value. `compositeKey` also accepts null, which here means a missing value. */
export function isKeyPart(value: unknown): value is NonNullable<KeyPart> {
  switch (typeof value) {
    case "string":
      return value.isWellFormed();
    case "number":
      return isExact(value);
    case "object":
      if (value instanceof Date) return !Number.isNaN(value.getTime());
      return value instanceof Uint8Array || value instanceof ArrayBuffer;
    default:
      return typeof value === "bigint" || typeof value === "boolean";
  }
}

/** What a part of a key may be, for error messages. */
export const KEY_PARTS = "well-formed text, a number within 2^53, a bigint, a boolean, a valid Date or bytes";

function invalid(index: number, found: string): NevertwiceError {
  return new NevertwiceError(
    "key-invalid",
    `part ${index} of the key is ${found}; parts are strings, numbers within 2^53, bigints, booleans, dates, bytes or null. Give a larger number as a string or a bigint.`,
  );
}
