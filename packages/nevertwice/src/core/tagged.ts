/**
 * Values that JSON cannot say, as JSON: an object with the member `$` names what it stands for, `{"$":"date","v":0}`.
 * Reading it back makes plain data and plain errors, never live classes.
 */
import { fromBase64, toBase64 } from "./bytes.ts";

export const TAG = "$";
/** Deeper values are refused; so are circular ones, which are infinitely deep. */
export const MAX_DEPTH = 256;
/** An error's cause has a cause: this many are kept. */
const MAX_CAUSES = 8;

class NotEncodable extends Error {}
export class TooLarge extends Error {}

/** How many parts a value may still have: a small one that shares its parts can be endless when it is written out. */
export interface Budget {
  partsLeft: number;
}

export function spend(budget: Budget): void {
  if (budget.partsLeft-- <= 0) throw new TooLarge("more parts than the bytes that may be kept");
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
      throw new NotEncodable(`a ${typeof value} cannot be kept`);
  }
}

function taggedObject(object: object, inner: (part: unknown) => unknown): unknown {
  // A Buffer is bytes like any other; every other class that extends one of these is a class of its own.
  if (object instanceof Uint8Array) return tag("bytes", toBase64(object));
  switch (Object.getPrototypeOf(object)) {
    case Object.prototype:
    case null:
      return taggedMembers(object, inner);
    case Array.prototype:
      if (Object.keys(object).length > (object as unknown[]).length)
        throw new NotEncodable("an array with a name beside its elements cannot be kept");
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
      throw new NotEncodable(`an instance of ${name} cannot be kept; return plain data`);
    }
  }
}

function taggedMembers(object: object, inner: (part: unknown) => unknown): unknown {
  if (Object.getOwnPropertySymbols(object).length > 0)
    throw new NotEncodable("an object with a symbol for a name cannot be kept");
  const members = Object.entries(object).map(([name, member]) => [name, inner(member)] as const);
  // A name that JSON.parse or our own tags would treat as special is kept as data, in a list of pairs.
  if (members.some(([name]) => name === TAG || name === "__proto__")) return tag("object", members);
  return Object.fromEntries(members);
}

/** Name, message, code and cause. A cause that cannot be kept is left out: the error itself matters more. */
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

/** Throws on what no version of `toTagged` up to this one writes. */
export function fromTagged(json: unknown): unknown {
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
      throw new TypeError(`unknown tag: ${name}`);
  }
}

function objectOf(members: readonly [string, unknown][]): object {
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(members.map(([name, member]) => [name, fromTagged(member)]));
}

function errorOf(fields: Record<string, unknown>): Error {
  const cause = "cause" in fields ? { cause: fromTagged(fields.cause) } : undefined;
  const error = new Error(fields.message as string, cause);
  // Own and not enumerable, as an error's name and message are.
  Object.defineProperty(error, "name", { value: fields.name, configurable: true, writable: true });
  if ("code" in fields) Object.assign(error, { code: fields.code });
  return error;
}
