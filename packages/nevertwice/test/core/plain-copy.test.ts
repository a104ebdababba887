/** Tests the copies of plain values: each is what JSON.stringify and JSON.parse would give, and shares nothing. */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { decodeOutcome, encodeOutcome, keepValue } from "../../src/core/outcome.ts";
import { parseJson } from "../../src/core/parse-json.ts";
import { copyAgain, copyPlain, NOT_PLAIN } from "../../src/core/plain-copy.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { drawValue } from "./odd-values.ts";

const VALUES = 20_000;
const MAX_PARTS = 1_000_000;

/** Whether JSON gives the value back, told without the code under test. */
function isPlain(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== "object" || value === null)
    return value === null || typeof value === "string" || typeof value === "boolean";
  if (Object.getOwnPropertySymbols(value).length > 0) return false;
  if (Array.isArray(value)) {
    if (Object.getPrototypeOf(value) !== Array.prototype) return false;
    return Object.keys(value).length === value.length && value.every(isPlain);
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.entries(value).every(
    ([name, member]) => name !== "$" && name !== "__proto__" && isPlain(member),
  );
}

function partsOf(value: unknown, parts = new Set<object>()): Set<object> {
  if (typeof value !== "object" || value === null) return parts;
  parts.add(value);
  for (const member of Object.values(value)) partsOf(member, parts);
  return parts;
}

describe("a copy", () => {
  test(`of ${VALUES.toLocaleString("en")} drawn values equals JSON.parse(JSON.stringify(value)), and is refused for the others`, () => {
    const random = seededRandom(7);
    let plain = 0;
    for (let i = 0; i < VALUES; i++) {
      const value = drawValue(random, { odd: 0.005, deep: 0.2 });
      const budget = { partsLeft: MAX_PARTS, mostBytes: 0 };
      const copy = copyPlain(value, budget);
      if ((copy !== NOT_PLAIN) !== isPlain(value)) expect.unreachable(`value ${i} of the seed`);
      if (copy === NOT_PLAIN) continue;
      plain++;
      const text = JSON.stringify(value);
      const parsed = parseJson(text);
      const again = copyAgain(copy);
      if (!isDeepStrictEqual(copy, parsed) || !isDeepStrictEqual(again, parsed))
        expect.unreachable(`value ${i} of the seed: ${text}`);
      // The names have the same order too, so that the text of a copy is the text of the value.
      if (JSON.stringify(copy) !== text || JSON.stringify(again) !== text)
        expect.unreachable(`order of value ${i} of the seed: ${text}`);
      if (Buffer.byteLength(text) > budget.mostBytes) expect.unreachable(`bytes of value ${i} of the seed`);
      const parts = [...partsOf(value), ...partsOf(copy), ...partsOf(again)];
      if (new Set(parts).size !== partsOf(value).size + 2 * partsOf(copy).size)
        expect.unreachable(`a shared part in value ${i} of the seed`);
    }
    expect(plain).toBeGreaterThan(VALUES / 3);
    expect(plain).toBeLessThan(VALUES);
  });

  test("ignores what an application added to Object.prototype", () => {
    const prototype = Object.prototype as unknown as Record<string, unknown>;
    prototype.shared = { deep: 1 };
    prototype.method = () => 1;
    try {
      const copy = copyPlain({ a: { b: 1 } }, { partsLeft: MAX_PARTS, mostBytes: 0 });
      expect(Object.keys(copy as object)).toEqual(["a"]);
      expect(Object.keys((copy as { a: object }).a)).toEqual(["b"]);
      expect(Object.keys(copyAgain(copy) as object)).toEqual(["a"]);
    } finally {
      Reflect.deleteProperty(prototype, "shared");
      Reflect.deleteProperty(prototype, "method");
    }
  });

  test("reads a getter once, and keeps what it returned", () => {
    let reads = 0;
    const value = {
      get next() {
        return ++reads;
      },
    };
    expect(copyPlain(value, { partsLeft: MAX_PARTS, mostBytes: 0 })).toEqual({ next: 1 });
    expect(reads).toBe(1);
  });
});

describe("a value that is kept without text", () => {
  test("has the text and the value that its encoding has, and is kept only if the text would be", () => {
    const random = seededRandom(11);
    let kept = 0;
    for (let i = 0; i < 20_000; i++) {
      const value = drawValue(random, { odd: 0.005, deep: 0.2 });
      const maxBytes = random.between(0, 3_000);
      const origin = random.pick(["", "trace-1", '"\\'.repeat(20)]);
      const found = keepValue(value, maxBytes, origin);
      if (found === undefined) continue;
      kept++;
      const encoded = encodeOutcome("value", value, maxBytes, origin);
      if (!encoded.kept || encoded.text !== found.text) expect.unreachable(`value ${i}: ${found.text}`);
      if (!isDeepStrictEqual(decodeOutcome(found.text), decodeOutcome(found)))
        expect.unreachable(`value ${i}: ${found.text}`);
    }
    expect(kept).toBeGreaterThan(2_000);
  });

  test("has the form of a list that ends in a long text", () => {
    const response = [200, { "content-type": "text/plain" }, "x".repeat(500)];
    const encoded = encodeOutcome("value", response, 10_000);
    expect(encoded).toMatchObject({ kept: true, text: keepValue(response, 10_000)?.text });
  });

  test.each([
    ["is a Date", new Date(0)],
    ["is undefined", undefined],
    [
      "has a getter that throws",
      Object.defineProperty({}, "a", {
        enumerable: true,
        get: () => {
          throw new Error("no");
        },
      }),
    ],
    ["may be too large", "x".repeat(1_000)],
  ])("does not exist for a value that %s", (_, value) => {
    expect(keepValue(value, 2_000)).toBeUndefined();
  });
});
