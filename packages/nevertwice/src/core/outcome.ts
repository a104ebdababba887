/**
 * What the work returned or threw, as text: a JSON array of a header (format, kind and shape, one character each, then the
 * origin if there is one) and the content. Text can be read by people where it is stored, and shared without copying. A list that ends in a long text, as
 * an answer over HTTP does, has that text behind a line break, as it is: nothing in it is escaped and unescaped.
 */
import { utf8Bytes } from "./bytes.ts";
import { type Budget, fromTagged, MAX_DEPTH, spend, TAG, TooLarge, toTagged } from "./tagged.ts";

/** What a kept outcome says. `not-kept`: the work is done, but what it returned could not be kept. */
export type Outcome = (
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "thrown"; readonly error: unknown }
  | { readonly kind: "not-kept"; readonly reason: NotKeptReason }
) & {
  /** What the observer of the attempt that ran said of where it ran: a trace and span, say. */
  readonly origin?: string | undefined;
};

/** `unreadable`: kept by a format that this version does not know, or sealed with a key that is not at hand. */
export type NotKeptReason = "not-encodable" | "too-large" | "forgotten" | "unreadable";

const FORMAT = "1";
const HEADER_LENGTH = 3;
const KINDS = { value: "v", thrown: "t", "not-kept": "n" } as const;
/** JSON as it is, or JSON with tags for what JSON cannot say. */
const PLAIN = "p";
const TAGGED = "t";
/** JSON of all but the last, a line break, the last. */
const TRAILING = "r";
/** Shorter texts are not worth a shape of their own. */
const LONG_TEXT = 128;

/** The text and what it reads back as, or why there is no text. */
export type Encoded =
  | { readonly kept: true; readonly text: string; readonly content: unknown }
  | { readonly kept: false; readonly reason: "not-encodable" | "too-large"; readonly detail: string };

/** Encodes JSON values, `undefined`, bytes, Date, bigint, Map, Set and errors; anything else is not encodable. */
export function encodeOutcome(
  kind: "value" | "thrown",
  content: unknown,
  maxBytes: number,
  origin = "",
): Encoded {
  const encoded = encode(kind, content, maxBytes, origin);
  if (encoded.kept || kind !== "thrown" || !(content instanceof Error)) return encoded;
  // The error itself matters more than what caused it.
  return encode(kind, withoutCause(content), maxBytes, origin);
}

function encode(kind: "value" | "thrown", content: unknown, maxBytes: number, origin: string): Encoded {
  const start = FORMAT + KINDS[kind];
  try {
    // Each part takes at least a byte, so no value that fits has more parts than bytes.
    const plain = copyOfPlain(content, { partsLeft: maxBytes }, 0);
    if (plain !== NOT_PLAIN) {
      // The copy is what is written: a value that reads differently every time is read once.
      const text =
        trailing(start + TRAILING + origin, plain) ?? JSON.stringify([start + PLAIN + origin, plain]);
      return sized(text, plain, maxBytes);
    }
    const tagged = toTagged(content, { partsLeft: maxBytes });
    return sized(JSON.stringify([start + TAGGED + origin, tagged]), fromTagged(tagged), maxBytes);
  } catch (error) {
    // Also what the value itself throws while it is read: the work is done, so nothing may make it look undone.
    const reason = error instanceof TooLarge ? "too-large" : "not-encodable";
    return { kept: false, reason, detail: error instanceof Error ? error.message : textOf(error) };
  }
}

/** Undefined for a value of another form, and for a text that not every store can keep as it is. */
function trailing(header: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return undefined;
  const last: unknown = value.at(-1);
  if (typeof last !== "string" || last.length < LONG_TEXT) return undefined;
  if (!last.isWellFormed() || last.includes("\0")) return undefined;
  return `${JSON.stringify([header, ...value.slice(0, -1)])}\n${last}`;
}

/** Anything may be thrown, also what has no text. */
function textOf(thrown: unknown): string {
  return typeof thrown === "object" && thrown !== null ? "something threw an object" : String(thrown);
}

function sized(text: string, content: unknown, maxBytes: number): Encoded {
  // No character takes more than three bytes a unit, so most texts need not be measured.
  const bytes = text.length * 3 <= maxBytes ? 0 : utf8Bytes(text);
  if (bytes <= maxBytes) return { kept: true, text, content };
  return { kept: false, reason: "too-large", detail: `${bytes} bytes, and ${maxBytes} may be kept` };
}

function withoutCause(error: Error): Error {
  return Object.create(error, { cause: { value: undefined } }) as Error;
}

/** The marker of work that is done and must not be repeated, although what it returned is not there to replay. */
export function notKept(reason: NotKeptReason): string {
  return JSON.stringify([FORMAT + KINDS["not-kept"] + PLAIN, { reason }]);
}

export const FORGOTTEN: string = notKept("forgotten");

export function decodeOutcome(text: string): Outcome {
  try {
    return decode(text);
  } catch {
    // Not ours, or a later version's: done, but not to be told. It must not look like what the work threw.
    return { kind: "not-kept", reason: "unreadable" };
  }
}

function decode(text: string): Outcome {
  // JSON has no line break of its own as we write it.
  const end = text.indexOf("\n");
  const [header, ...rest] = JSON.parse(end === -1 ? text : text.slice(0, end)) as [string, ...unknown[]];
  const shape = header[2];
  if (header[0] !== FORMAT || (shape === TRAILING) === (end === -1)) throw new TypeError("unknown format");
  const content = contentIn(shape, rest, text.slice(end + 1));
  const origin = header.length > HEADER_LENGTH ? { origin: header.slice(HEADER_LENGTH) } : undefined;
  switch (header[1]) {
    case KINDS.value:
      return { kind: "value", value: content, ...origin };
    case KINDS.thrown:
      return { kind: "thrown", error: content, ...origin };
    case KINDS["not-kept"]:
      return { kind: "not-kept", reason: (content as { reason: NotKeptReason }).reason };
    default:
      throw new TypeError("unknown kind");
  }
}

function contentIn(shape: string | undefined, rest: unknown[], last: string): unknown {
  switch (shape) {
    case PLAIN:
      return rest[0];
    case TAGGED:
      return fromTagged(rest[0]);
    case TRAILING:
      return [...rest, last];
    default:
      throw new TypeError("unknown shape");
  }
}

const NOT_PLAIN = Symbol("not plain JSON");

/** A copy of a value that JSON.stringify and JSON.parse would give back exactly; else NOT_PLAIN. */
function copyOfPlain(value: unknown, budget: Budget, depth: number): unknown {
  spend(budget);
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : NOT_PLAIN;
    case "object":
      if (value === null) return null;
      if (depth === MAX_DEPTH) return NOT_PLAIN;
      return Array.isArray(value) ? copyOfArray(value, budget, depth) : copyOfObject(value, budget, depth);
    default:
      return NOT_PLAIN;
  }
}

function copyOfArray(array: readonly unknown[], budget: Budget, depth: number): unknown {
  if (Object.getPrototypeOf(array) !== Array.prototype || Object.keys(array).length !== array.length)
    return NOT_PLAIN;
  const copy: unknown[] = [];
  for (const element of array) {
    const plain = copyOfPlain(element, budget, depth + 1);
    if (plain === NOT_PLAIN) return NOT_PLAIN;
    copy.push(plain);
  }
  return copy;
}

function copyOfObject(object: object, budget: Budget, depth: number): unknown {
  if (Object.getPrototypeOf(object) !== Object.prototype) return NOT_PLAIN;
  if (Object.getOwnPropertySymbols(object).length > 0) return NOT_PLAIN;
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(object)) {
    const plain = copyOfPlain((object as Record<string, unknown>)[name], budget, depth + 1);
    if (plain === NOT_PLAIN || name === TAG || name === "__proto__") return NOT_PLAIN;
    copy[name] = plain;
  }
  return copy;
}
