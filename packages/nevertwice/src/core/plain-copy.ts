/** Copies of values that JSON can represent. Each copy is what `JSON.parse(JSON.stringify(value))` would give. */
import { type Budget, MAX_DEPTH, spend, TAG } from "./tagged.ts";

export const NOT_PLAIN = Symbol("not plain JSON");

/** What a copy counts: the parts that the value may still have, and how long its text can be at most. */
export interface CopyBudget extends Budget {
  /** The text of the value has no more bytes than this. */
  mostBytes: number;
}

/** No number has a longer text, its comma included. */
const NUMBER_BYTES = 25;
/** A UTF-16 unit that JSON escapes takes six bytes; any other takes at most three. */
const UNIT_BYTES = 6;
/** Two quotes or brackets, a colon and a comma. */
const PUNCTUATION_BYTES = 4;

/** A copy of the value if JSON.stringify and JSON.parse would give back the same; else NOT_PLAIN. Reads each member once. */
export function copyPlain(value: unknown, budget: CopyBudget): unknown {
  spend(budget);
  if (typeof value === "object" && value !== null) return copyParts(value, budget, 0);
  return isPlainLeaf(value, budget) ? value : NOT_PLAIN;
}

function copyParts(value: object, budget: CopyBudget, depth: number): unknown {
  if (depth === MAX_DEPTH) return NOT_PLAIN;
  budget.mostBytes += PUNCTUATION_BYTES;
  return Array.isArray(value) ? copyArray(value, budget, depth + 1) : copyObject(value, budget, depth + 1);
}

function isPlainLeaf(value: unknown, budget: CopyBudget): boolean {
  switch (typeof value) {
    case "string":
      budget.mostBytes += value.length * UNIT_BYTES + PUNCTUATION_BYTES;
      return true;
    case "number":
      budget.mostBytes += NUMBER_BYTES;
      return Number.isFinite(value) && !Object.is(value, -0);
    case "boolean":
      budget.mostBytes += NUMBER_BYTES;
      return true;
    default:
      budget.mostBytes += NUMBER_BYTES;
      return value === null;
  }
}

function copyArray(array: readonly unknown[], budget: CopyBudget, depth: number): unknown {
  if (Object.getPrototypeOf(array) !== Array.prototype || Object.keys(array).length !== array.length)
    return NOT_PLAIN;
  const copy = [...array];
  for (let i = 0; i < copy.length; i++) {
    const element = copy[i];
    spend(budget);
    if (typeof element === "object" && element !== null) {
      const inner = copyParts(element, budget, depth);
      if (inner === NOT_PLAIN) return NOT_PLAIN;
      copy[i] = inner;
    } else if (!isPlainLeaf(element, budget)) return NOT_PLAIN;
  }
  return copy;
}

function copyObject(object: object, budget: CopyBudget, depth: number): unknown {
  if (Object.getPrototypeOf(object) !== Object.prototype) return NOT_PLAIN;
  if (Object.getOwnPropertySymbols(object).length > 0) return NOT_PLAIN;
  // A spread copies all members at once, and far faster than one assignment each. It keeps a member called __proto__ as data.
  const copy: Record<string, unknown> = { ...object };
  for (const name in copy) {
    if (name === TAG || name === "__proto__") return NOT_PLAIN;
    const member = copy[name];
    spend(budget);
    budget.mostBytes += name.length * UNIT_BYTES + PUNCTUATION_BYTES;
    if (typeof member === "object" && member !== null) {
      if (isInherited(copy, name)) continue;
      const inner = copyParts(member, budget, depth);
      if (inner === NOT_PLAIN) return NOT_PLAIN;
      copy[name] = inner;
    } else if (!isPlainLeaf(member, budget) && !isInherited(copy, name)) return NOT_PLAIN;
  }
  return copy;
}

/** Whether an application added this member to Object.prototype. It is no part of the value. */
function isInherited(copy: object, name: string): boolean {
  return !Object.hasOwn(copy, name);
}

/** Another copy of what `copyPlain` returned, which needs no check. */
export function copyAgain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? copyArrayAgain(value) : copyObjectAgain(value as Record<string, unknown>);
}

function copyArrayAgain(array: readonly unknown[]): unknown[] {
  const copy = [...array];
  for (let i = 0; i < copy.length; i++) {
    const element = copy[i];
    if (typeof element === "object" && element !== null) copy[i] = copyAgain(element);
  }
  return copy;
}

function copyObjectAgain(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy = { ...object };
  for (const name in copy) {
    const member = copy[name];
    if (typeof member === "object" && member !== null && !isInherited(copy, name))
      copy[name] = copyAgain(member);
  }
  return copy;
}
