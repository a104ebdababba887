/**
 * Values that JSON cannot represent, as JSON: an object with the member `$` names the type, as in `{"$":"date","v":0}`.
 * Reading it back gives plain data and plain errors, never instances of classes.
 */
import { fromBase64, toBase64 } from "./bytes.ts";

export const TAG = "$";
/** Deeper values are refused; so are circular ones, which are infinitely deep. */
export const MAX_DEPTH = 256;
/** How many nested causes of an error are stored. */
const MAX_CAUSES = 8;

class NotEncodable extends Error {}
export class TooLarge extends Error {}

/** How many parts a value may still have. A small value that contains the same part many times can be very large as text. */
export interface Budget {
  partsLeft: number;
}

export function spend(budget: Budget): void {
  if (budget.partsLeft-- <= 0)
    throw new TooLarge("the value has more parts than the bytes that may be stored");
}

const tag = (name: string, v?: unknown) => (v === undefined ? { [TAG]: name } : { [TAG]: name, v });

export function toTagged(value: unknown, budget: Budget, depth = 0, causes = 0): unknown {
  if (depth > MAX_DEPTH)
    throw new NotEncodable(`the value is nested deeper than ${MAX_DEPTH} levels, or circular`);
  spend(budget);
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
      if (value === null) return null;
      if (value instanceof Error) return tag("error", errorFields(value, budget, depth, causes));
      return taggedObject(value, (part) => toTagged(part, budget, depth + 1, causes));
    default:
      throw new NotEncodable(`a ${typeof value} cannot be stored`);
  }
}

function taggedObject(object: object, inner: (part: unknown) => unknown): unknown {
  // A Buffer counts as bytes. An instance of any other class that extends one of these is refused.
  if (object instanceof Uint8Array) return tag("bytes", toBase64(object));
  switch (Object.getPrototypeOf(object)) {
    case Object.prototype:
    case null:
      return taggedMembers(object, inner);
    case Array.prototype:
      if (Object.keys(object).length > (object as unknown[]).length)
        throw new NotEncodable("an array with a named member cannot be stored");
      return Array.from(object as unknown[], inner);
    case Date.prototype: {
      const time = (object as Date).getTime();
      return tag("date", Number.isNaN(time) ? null : time);
    }
    case Map.prototype:
      return tag(
        "map",
        Array.from(object as Map<unknown, unknown>, ([key, value]) => [inner(key), inner(value)]),
      );
    case Set.prototype:
      return tag("set", Array.from(object as Set<unknown>, inner));
    default: {
      const name = object.constructor?.name || "a class";
      throw new NotEncodable(`an instance of ${name} cannot be stored; return plain data`);
    }
  }
}

function taggedMembers(object: object, inner: (part: unknown) => unknown): unknown {
  if (Object.getOwnPropertySymbols(object).length > 0)
    throw new NotEncodable("an object with a symbol as a member name cannot be stored");
  const members = Object.entries(object).map(([name, member]) => [name, inner(member)] as const);
  // If a name is special for JSON.parse or for our tags, the members are stored as a list of pairs.
  if (members.some(([name]) => name === TAG || name === "__proto__")) return tag("object", members);
  return Object.fromEntries(members);
}

/** Name, message, code and cause. A cause that cannot be stored is left out, since the error itself matters more. */
function errorFields(error: Error, budget: Budget, depth: number, causes: number): Record<string, unknown> {
  const fields: Record<string, unknown> = { name: String(error.name), message: String(error.message) };
  const { code } = error as { code?: unknown };
  if (typeof code === "string" || typeof code === "number") fields.code = code;
  if (error.cause === undefined || causes === MAX_CAUSES) return fields;
  const { partsLeft } = budget;
  try {
    fields.cause = toTagged(error.cause, budget, depth + 1, causes + 1);
  } catch {
    budget.partsLeft = partsLeft;
  }
  return fields;
}

/** Throws for a tag that this version of `toTagged` does not write. */
export function fromTagged(json: unknown): unknown {
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return json.map(fromTagged);
  if (!Object.hasOwn(json, TAG)) return toObject(Object.entries(json));
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
      return toErrorObject(v as Record<string, unknown>);
    case "object":
      return toObject(v as [string, unknown][]);
    default:
      throw new TypeError(`unknown tag: ${name}`);
  }
}

function toObject(members: readonly [string, unknown][]): object {
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(members.map(([name, member]) => [name, fromTagged(member)]));
}

function toErrorObject(fields: Record<string, unknown>): Error {
  const cause = "cause" in fields ? { cause: fromTagged(fields.cause) } : undefined;
  const error = new Error(fields.message as string, cause);
  // An own property that is not enumerable, like the message of an error.
  Object.defineProperty(error, "name", { value: fields.name, configurable: true, writable: true });
  if ("code" in fields) Object.assign(error, { code: fields.code });
  return error;
}
