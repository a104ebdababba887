/** Tests that canonical JSON is written as by the plain implementation below, whatever was written before. */
import { expect, test } from "vitest";
import { canonicalJson } from "../../src/core/canonical-json.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { drawValue } from "./odd-values.ts";

/** RFC 8785 without any optimisation. Throws for what JSON cannot represent. */
function plainCanonical(value: unknown, depth = 0): string {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new TypeError("a lone surrogate");
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError("not finite");
      return String(value);
    case "boolean":
      return String(value);
    case "object":
      if (value === null) return "null";
      if (depth === 128) throw new TypeError("too deep");
      return Array.isArray(value) ? plainArray(value, depth) : plainObject(value, depth);
    default:
      throw new TypeError(typeof value);
  }
}

function plainArray(array: readonly unknown[], depth: number): string {
  if (Object.keys(array).length > array.length) throw new TypeError("a named member");
  return `[${Array.from(array, (element) => plainCanonical(element, depth + 1)).join(",")}]`;
}

function plainObject(object: object, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError("an instance");
  if (Object.getOwnPropertySymbols(object).length > 0) throw new TypeError("a symbol");
  const members = Object.keys(object)
    .sort()
    .flatMap((name) => {
      const value = (object as Record<string, unknown>)[name];
      return value === undefined ? [] : [`${plainCanonical(name)}:${plainCanonical(value, depth + 1)}`];
    });
  return `{${members.join(",")}}`;
}

function textOrRefusal(write: () => string): string | undefined {
  try {
    return write();
  } catch {
    return undefined;
  }
}

test("writes 100,000 drawn values as the plain implementation does, and refuses the same ones", () => {
  const random = seededRandom(19);
  let refused = 0;
  for (let i = 0; i < 100_000; i++) {
    const value = drawValue(random, { odd: 0.01, deep: 0.15 });
    const text = textOrRefusal(() => canonicalJson(value));
    if (text !== textOrRefusal(() => plainCanonical(value)))
      expect.unreachable(`value ${i}: ${text} instead of ${textOrRefusal(() => plainCanonical(value))}`);
    if (text === undefined) refused++;
  }
  expect(refused).toBeGreaterThan(2_000);
  expect(refused).toBeLessThan(60_000);
});

test("writes objects with the same names in another order alike, and with one other name differently", () => {
  expect(canonicalJson({ a: 1, b: 2, c: 3 })).toBe('{"a":1,"b":2,"c":3}');
  expect(canonicalJson({ a: 3, c: 1, b: 2 })).toBe('{"a":3,"b":2,"c":1}');
  expect(canonicalJson({ a: 1, b: 2, d: 3 })).toBe('{"a":1,"b":2,"d":3}');
  expect(canonicalJson({ a: 1, b: 2 })).toBe('{"a":1,"b":2}');
});

test("refuses an object of a few parts whose text would not end", () => {
  let value: unknown = "x".repeat(1_000);
  for (let i = 0; i < 40; i++) value = { a: value, b: value };
  expect(() => canonicalJson(value)).toThrow("more than 67108864 characters as JSON");
});

test("limits how many objects' names it remembers", () => {
  // Only the time and the memory would show a limit that does not hold; this shows that the names are written anew.
  for (let i = 0; i < 2_000; i++) expect(canonicalJson({ [`z${i}`]: 1, a: i })).toBe(`{"a":${i},"z${i}":1}`);
  for (let i = 0; i < 20; i++) expect(canonicalJson({ z: 1, [`a${i}`]: 2 })).toBe(`{"a${i}":2,"z":1}`);
  expect(canonicalJson({ z0: 1, a: 0 })).toBe('{"a":0,"z0":1}');
});
