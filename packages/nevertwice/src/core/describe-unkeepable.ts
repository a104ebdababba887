/** Describes the part of a value that cannot be stored, by its path and its class. */
import type { Call } from "./request.ts";
import { toTagged } from "./tagged.ts";
import { warnOnce } from "./warning.ts";

/** Enough for common values; a larger one is described as a whole. */
const MOST_PARTS = 100_000;
/** A longer path would not help. */
const DEEPEST = 64;

/** `$.user.account is an instance of Account`. */
export function describeUnkeepable(value: unknown): string {
  let path = "$";
  let part = value;
  for (let depth = 0; depth < DEEPEST; depth++) {
    const inside = listMembers(part).find(([, member]) => !isKeepable(member));
    if (inside === undefined) break;
    path += inside[0];
    part = inside[1];
  }
  return `${path} is ${describePart(part)}`;
}

function isKeepable(value: unknown): boolean {
  try {
    toTagged(value, { partsLeft: MOST_PARTS });
    return true;
  } catch {
    return false;
  }
}

/** The parts of a container that can itself be stored, each with its step in the path. */
function listMembers(value: unknown): readonly (readonly [step: string, member: unknown])[] {
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.map((member, index) => [`[${index}]`, member]);
  if (value instanceof Map) return [...value].map(([key, member]) => [`.get(${shown(key)})`, member]);
  if (value instanceof Set) return [...value].map((member) => [" (a member of the set)", member]);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return [];
  return Object.keys(value).map((name) => [stepTo(name), readMember(value, name)]);
}

/** If a getter throws, it counts as the part that cannot be stored. */
function readMember(value: object, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return () => {};
  }
}

function stepTo(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

function shown(key: unknown): string {
  return typeof key === "string" ? JSON.stringify(key) : typeof key === "object" ? "an object" : String(key);
}

function describePart(value: unknown): string {
  if (typeof value !== "object" || value === null) return `a ${typeof value}`;
  const made: unknown = value.constructor;
  const name = typeof made === "function" ? made.name : "";
  if (name === "Object" || name === "Array")
    return "nested too deep, circular, or has member names that cannot be stored";
  return name === "" ? "an instance of a class" : `an instance of ${name}`;
}

/** Warns at the first completion. Otherwise only the first duplicate would show the problem. */
export function warnUnreplayable({ identity }: Call, why: string): void {
  const { operation } = identity.parts;
  warnOnce(
    "NEVERTWICE_NOT_KEPT",
    `operation ${JSON.stringify(operation)}: the value that its work returned cannot be replayed: ${why}. Duplicates are refused with "not-kept". Return plain data, or give encode and decode (docs/options.md).`,
    operation,
  );
}
