/**
 * What the work returned or threw, as bytes. A frame is text: a format, a kind and a shape, one character each, then
 * JSON. If the value holds bytes, the JSON is preceded by its length and followed by them. Reading one back makes plain
 * data and plain errors, never live classes.
 */
import { fromUtf8, toUtf8 } from "./bytes.ts";

/** What a kept outcome says. `not-kept`: the work is done, but what it returned could not be kept. */
export type Outcome =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "thrown"; readonly error: unknown }
  | { readonly kind: "not-kept"; readonly reason: NotKeptReason };

/** `unreadable`: kept by a format that this version does not know. */
export type NotKeptReason = "not-encodable" | "too-large" | "forgotten" | "unreadable";

const FORMAT = "1";
const KINDS = { value: "v", thrown: "t", "not-kept": "n" } as const;
/** JSON as it is; JSON with tags; JSON with tags that point into the bytes behind it. */
const PLAIN = "p";
const TAGGED = "t";
const BINARY = "b";
const HEADER_BYTES = 3;
/** Deeper values are refused; so are circular ones, which are infinitely deep. */
const MAX_DEPTH = 256;
/** A JSON object with this member is one of ours: `{"$":"date","v":0}`. */
const TAG = "$";

/** The frame and what it reads back as, or why there is no frame. */
export type Encoded =
  | { readonly kept: true; readonly bytes: Uint8Array; readonly content: unknown }
  | { readonly kept: false; readonly reason: "not-encodable" | "too-large"; readonly detail: string };

class NotEncodable extends Error {}

/** Encodes JSON values, `undefined`, bytes, Date, bigint, Map, Set and errors; anything else is not encodable. */
export function encodeOutcome(kind: "value" | "thrown", content: unknown, maxBytes: number): Encoded {
  try {
    if (isPlainJson(content, 0)) {
      const json = JSON.stringify(content);
      const bytes = toUtf8(FORMAT + KINDS[kind] + PLAIN + json);
      return bytes.length > maxBytes
        ? tooLarge(bytes.length, maxBytes)
        : { kept: true, bytes, content: JSON.parse(json) };
    }
    // Each node takes at least a byte, so no value that fits has more nodes than bytes.
    const tagging: Tagging = { binary: [], offset: 0, nodesLeft: maxBytes };
    const json = JSON.stringify(toTagged(content, tagging, 0));
    const bytes = taggedFrame(kind, json, tagging);
    return bytes.length > maxBytes
      ? tooLarge(bytes.length, maxBytes)
      : { kept: true, bytes, content: contentOf(bytes) };
  } catch (error) {
    // Also what the value itself throws while it is read: the work is done, so nothing may make it look undone.
    return {
      kept: false,
      reason: "not-encodable",
      detail: error instanceof Error ? error.message : String(error),
    };
  }
}

function tooLarge(bytes: number, maxBytes: number): Encoded {
  return { kept: false, reason: "too-large", detail: `${bytes} bytes, and ${maxBytes} may be kept` };
}

function taggedFrame(kind: "value" | "thrown", json: string, { binary, offset }: Tagging): Uint8Array {
  const start = FORMAT + KINDS[kind];
  if (binary.length === 0) return toUtf8(start + TAGGED + json);
  const text = toUtf8(json);
  const header = toUtf8(`${start}${BINARY}${text.length}:`);
  const bytes = new Uint8Array(header.length + text.length + offset);
  bytes.set(header);
  bytes.set(text, header.length);
  let at = header.length + text.length;
  for (const part of binary) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** The marker of work that is done and must not be repeated, although what it returned is not there to replay. */
export function notKept(reason: NotKeptReason): Uint8Array {
  return toUtf8(`${FORMAT}${KINDS["not-kept"]}${PLAIN}${JSON.stringify({ reason })}`);
}

export const FORGOTTEN: Uint8Array = notKept("forgotten");

export function decodeOutcome(bytes: Uint8Array): Outcome {
  const [format, kind] = fromUtf8(bytes, 0, HEADER_BYTES);
  if (format !== FORMAT) return { kind: "not-kept", reason: "unreadable" };
  switch (kind) {
    case KINDS.value:
      return { kind: "value", value: contentOf(bytes) };
    case KINDS.thrown:
      return { kind: "thrown", error: contentOf(bytes) };
    case KINDS["not-kept"]:
      return { kind: "not-kept", reason: (contentOf(bytes) as { reason: NotKeptReason }).reason };
    default:
      return { kind: "not-kept", reason: "unreadable" };
  }
}

function contentOf(bytes: Uint8Array): unknown {
  const shape = String.fromCharCode(bytes[HEADER_BYTES - 1] as number);
  if (shape === BINARY) {
    const colon = bytes.indexOf(":".charCodeAt(0), HEADER_BYTES);
    const jsonEnd = colon + 1 + Number(fromUtf8(bytes, HEADER_BYTES, colon));
    return fromTagged(JSON.parse(fromUtf8(bytes, colon + 1, jsonEnd)), bytes.subarray(jsonEnd));
  }
  const json: unknown = JSON.parse(fromUtf8(bytes, HEADER_BYTES, bytes.length));
  return shape === TAGGED ? fromTagged(json, EMPTY) : json;
}

const EMPTY = new Uint8Array();

/** Whether JSON.stringify and JSON.parse give back exactly this value. */
function isPlainJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0);
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth === MAX_DEPTH) return false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isPlainJson(value[i], depth + 1)) return false;
    return Object.keys(value).length === value.length;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || Object.getOwnPropertySymbols(value).length > 0)
    return false;
  for (const name of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[name];
    if (name === TAG || name === "__proto__" || !isPlainJson(member, depth + 1)) return false;
  }
  return true;
}

interface Tagging {
  readonly binary: Uint8Array[];
  offset: number;
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
  if (value instanceof Uint8Array) return tag("bytes", attach(value, tagging));
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

function attach(bytes: Uint8Array, tagging: Tagging): readonly [offset: number, length: number] {
  const offset = tagging.offset;
  tagging.binary.push(bytes);
  tagging.offset += bytes.length;
  return [offset, bytes.length];
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

function fromTagged(json: unknown, binary: Uint8Array): unknown {
  if (typeof json !== "object" || json === null) return json;
  const inner = (part: unknown) => fromTagged(part, binary);
  if (Array.isArray(json)) return json.map(inner);
  if (!Object.hasOwn(json, TAG)) return objectOf(Object.entries(json), inner);
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
    case "bytes": {
      const [offset, length] = v as [number, number];
      return new Uint8Array(binary.subarray(offset, offset + length));
    }
    case "map":
      return new Map((v as [unknown, unknown][]).map(([key, value]) => [inner(key), inner(value)]));
    case "set":
      return new Set((v as unknown[]).map(inner));
    case "error":
      return errorOf(v as Record<string, unknown>, inner);
    case "object":
      return objectOf(v as [string, unknown][], inner);
    default:
      throw new TypeError(`unknown tag in a kept outcome: ${name}`);
  }
}

function objectOf(members: readonly [string, unknown][], inner: (part: unknown) => unknown): object {
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(members.map(([name, member]) => [name, inner(member)]));
}

function errorOf(fields: Record<string, unknown>, inner: (part: unknown) => unknown): Error {
  const error = new Error(
    fields.message as string,
    "cause" in fields ? { cause: inner(fields.cause) } : undefined,
  );
  // Own and not enumerable, as an error's name and message are.
  Object.defineProperty(error, "name", { value: fields.name, configurable: true, writable: true });
  if ("code" in fields) Object.assign(error, { code: fields.code });
  return error;
}
