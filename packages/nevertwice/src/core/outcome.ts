/**
 * What the work returned or threw, as text: a format, a kind and a shape, one character each, then JSON. Text can be read
 * by people where it is stored, and shared without copying. Reading it back makes plain data and plain errors, never live
 * classes.
 */
import { fromBase64, toBase64, utf8Bytes } from "./bytes.ts";

/** What a kept outcome says. `not-kept`: the work is done, but what it returned could not be kept. */
export type Outcome =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "thrown"; readonly error: unknown }
  | { readonly kind: "not-kept"; readonly reason: NotKeptReason };

/** `unreadable`: kept by a format that this version does not know. */
export type NotKeptReason = "not-encodable" | "too-large" | "forgotten" | "unreadable";

const FORMAT = "1";
const KINDS = { value: "v", thrown: "t", "not-kept": "n" } as const;
/** JSON as it is, or JSON with tags for what JSON cannot say. */
const PLAIN = "p";
const TAGGED = "t";
const HEADER_LENGTH = 3;
/** Deeper values are refused; so are circular ones, which are infinitely deep. */
const MAX_DEPTH = 256;
/** A JSON object with this member is one of ours: `{"$":"date","v":0}`. */
const TAG = "$";

/** The text and what it reads back as, or why there is no text. */
export type Encoded =
  | { readonly kept: true; readonly text: string; readonly content: unknown }
  | { readonly kept: false; readonly reason: "not-encodable" | "too-large"; readonly detail: string };

class NotEncodable extends Error {}

/** Encodes JSON values, `undefined`, bytes, Date, bigint, Map, Set and errors; anything else is not encodable. */
export function encodeOutcome(kind: "value" | "thrown", content: unknown, maxBytes: number): Encoded {
  try {
    const plain = copyOfPlain(content, 0);
    if (plain !== NOT_PLAIN) {
      const text = FORMAT + KINDS[kind] + PLAIN + JSON.stringify(content);
      return sized(text, plain, maxBytes);
    }
    // Each node takes at least a byte, so no value that fits has more nodes than bytes.
    const tagged = toTagged(content, { nodesLeft: maxBytes }, 0);
    const text = FORMAT + KINDS[kind] + TAGGED + JSON.stringify(tagged);
    return sized(text, fromTagged(tagged), maxBytes);
  } catch (error) {
    // Also what the value itself throws while it is read: the work is done, so nothing may make it look undone.
    const detail = error instanceof Error ? error.message : String(error);
    return { kept: false, reason: "not-encodable", detail };
  }
}

function sized(text: string, content: unknown, maxBytes: number): Encoded {
  // No character takes more than three bytes a unit, so most texts need not be measured.
  const bytes = text.length * 3 <= maxBytes ? 0 : utf8Bytes(text);
  if (bytes <= maxBytes) return { kept: true, text, content };
  return { kept: false, reason: "too-large", detail: `${bytes} bytes, and ${maxBytes} may be kept` };
}

/** The marker of work that is done and must not be repeated, although what it returned is not there to replay. */
export function notKept(reason: NotKeptReason): string {
  return `${FORMAT}${KINDS["not-kept"]}${PLAIN}${JSON.stringify({ reason })}`;
}

export const FORGOTTEN: string = notKept("forgotten");

export function decodeOutcome(text: string): Outcome {
  if (text[0] !== FORMAT) return { kind: "not-kept", reason: "unreadable" };
  switch (text[1]) {
    case KINDS.value:
      return { kind: "value", value: contentOf(text) };
    case KINDS.thrown:
      return { kind: "thrown", error: contentOf(text) };
    case KINDS["not-kept"]:
      return { kind: "not-kept", reason: (contentOf(text) as { reason: NotKeptReason }).reason };
    default:
      return { kind: "not-kept", reason: "unreadable" };
  }
}

function contentOf(text: string): unknown {
  const json: unknown = JSON.parse(text.slice(HEADER_LENGTH));
  return text[HEADER_LENGTH - 1] === TAGGED ? fromTagged(json) : json;
}

const NOT_PLAIN = Symbol("not plain JSON");

/** A copy of a value that JSON.stringify and JSON.parse would give back exactly, and what they would give; else NOT_PLAIN. */
function copyOfPlain(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : NOT_PLAIN;
    case "object":
      if (value === null) return null;
      if (depth === MAX_DEPTH) return NOT_PLAIN;
      return Array.isArray(value) ? copyOfPlainArray(value, depth) : copyOfPlainObject(value, depth);
    default:
      return NOT_PLAIN;
  }
}

function copyOfPlainArray(array: readonly unknown[], depth: number): unknown {
  if (Object.keys(array).length !== array.length) return NOT_PLAIN;
  const copy: unknown[] = [];
  for (const element of array) {
    const plain = copyOfPlain(element, depth + 1);
    if (plain === NOT_PLAIN) return NOT_PLAIN;
    copy.push(plain);
  }
  return copy;
}

function copyOfPlainObject(object: object, depth: number): unknown {
  if (Object.getPrototypeOf(object) !== Object.prototype) return NOT_PLAIN;
  if (Object.getOwnPropertySymbols(object).length > 0) return NOT_PLAIN;
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(object)) {
    const plain = copyOfPlain((object as Record<string, unknown>)[name], depth + 1);
    if (plain === NOT_PLAIN || name === TAG || name === "__proto__") return NOT_PLAIN;
    copy[name] = plain;
  }
  return copy;
}

interface Tagging {
  nodesLeft: number;
}

const tag = (name: string, v?: unknown) => (v === undefined ? { [TAG]: name } : { [TAG]: name, v });

function toTagged(value: unknown, tagging: Tagging, depth: number): unknown {
  if (depth > MAX_DEPTH)
    throw new NotEncodable(`the value is nested deeper than ${MAX_DEPTH} levels, or circular`);
  if (tagging.nodesLeft-- <= 0)
    throw new NotEncodable("the value has more parts than the bytes that may be kept");
  const inner = (part: unknown) => toTagged(part, tagging, depth + 1);
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : tag("number", Object.is(value, -0) ? "-0" : String(value));
    case "undefined":
      return tag("undefined");
    case "bigint":
      return tag("bigint", String(value));
    case "object":
      break;
    default:
      throw new NotEncodable(`a ${typeof value} cannot be kept`);
  }
  if (value === null) return null;
  if (Array.isArray(value)) return Array.from(value, inner);
  if (value instanceof Uint8Array) return tag("bytes", toBase64(value));
  if (value instanceof Date) return tag("date", Number.isNaN(value.getTime()) ? null : value.getTime());
  if (value instanceof Map)
    return tag(
      "map",
      Array.from(value, ([k, v]) => [inner(k), inner(v)]),
    );
  if (value instanceof Set) return tag("set", Array.from(value, inner));
  if (value instanceof Error) return tag("error", errorFields(value, tagging, depth));
  return taggedObject(value, inner);
}

function taggedObject(object: object, inner: (part: unknown) => unknown): unknown {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new NotEncodable(
      `an instance of ${object.constructor?.name || "a class"} cannot be kept; return plain data`,
    );
  }
  if (Object.getOwnPropertySymbols(object).length > 0)
    throw new NotEncodable("an object with a symbol for a name cannot be kept");
  const members = Object.entries(object).map(([name, member]) => [name, inner(member)] as const);
  // A name that JSON.parse or our own tags would treat as special is kept as data, in a list of pairs.
  if (members.some(([name]) => name === TAG || name === "__proto__")) return tag("object", members);
  return Object.fromEntries(members);
}

/** Name, message, code and cause. A cause that cannot be kept is left out: the error itself matters more. */
function errorFields(error: Error, tagging: Tagging, depth: number): Record<string, unknown> {
  const fields: Record<string, unknown> = { name: String(error.name), message: String(error.message) };
  const { code } = error as { code?: unknown };
  if (typeof code === "string" || typeof code === "number") fields.code = code;
  if (error.cause !== undefined) {
    try {
      fields.cause = toTagged(error.cause, tagging, depth + 1);
    } catch (reason) {
      if (!(reason instanceof NotEncodable)) throw reason;
    }
  }
  return fields;
}

function fromTagged(json: unknown): unknown {
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return json.map(fromTagged);
  if (!Object.hasOwn(json, TAG)) return objectOf(Object.entries(json));
  const { [TAG]: name, v } = json as { [TAG]: string; v?: unknown };
  switch (name) {
    case "undefined":
      return undefined;
    case "number":
      return Number(v);
    case "bigint":
      return BigInt(v as string);
    case "date":
      return new Date(v === null ? Number.NaN : (v as number));
    case "bytes":
      return fromBase64(v as string);
    case "map":
      return new Map((v as [unknown, unknown][]).map(([key, value]) => [fromTagged(key), fromTagged(value)]));
    case "set":
      return new Set((v as unknown[]).map(fromTagged));
    case "error":
      return errorOf(v as Record<string, unknown>);
    case "object":
      return objectOf(v as [string, unknown][]);
    default:
      throw new TypeError(`unknown tag in a kept outcome: ${name}`);
  }
}

function objectOf(members: readonly [string, unknown][]): object {
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(members.map(([name, member]) => [name, fromTagged(member)]));
}

function errorOf(fields: Record<string, unknown>): Error {
  const error = new Error(
    fields.message as string,
    "cause" in fields ? { cause: fromTagged(fields.cause) } : undefined,
  );
  // Own and not enumerable, as an error's name and message are.
  Object.defineProperty(error, "name", { value: fields.name, configurable: true, writable: true });
  if ("code" in fields) Object.assign(error, { code: fields.code });
  return error;
}
