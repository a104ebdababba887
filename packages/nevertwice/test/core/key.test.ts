/** Tests keys of several parts: two different lists of parts never make the same key. */
import fc from "fast-check";
import { afterEach, describe, expect, expectTypeOf, test } from "vitest";
import {
  actionKey,
  compositeKey,
  eventKey,
  type Key,
  type KeyPart,
  operationKey,
} from "../../src/core/key.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const special = fc.string({
  unit: fc.constantFrom("|", "\\", "#", "?", "~", "n", "1", "-", ".", "e", "true", "a", "d", "b", "AQ=="),
  maxLength: 6,
});
const part: fc.Arbitrary<KeyPart> = fc.oneof(
  { arbitrary: special, weight: 4 },
  fc.string({ unit: "grapheme" }),
  fc.double({ noNaN: true, min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
  fc.integer({ min: -3, max: 12 }),
  fc.bigInt({ min: -3n, max: 12n }),
  fc.boolean(),
  fc.constant(null),
  fc.integer({ min: -3, max: 12 }).map((ms) => new Date(ms)),
  fc.uint8Array({ max: 2, maxLength: 3 }),
  fc.uint8Array({ max: 2, maxLength: 3 }).map((bytes) => bytes.slice().buffer),
);
const lists = fc.array(part, { minLength: 1, maxLength: 4 });
/** Describes a list of parts independently of the key's text. */
const describeParts = (list: readonly KeyPart[]) =>
  JSON.stringify(list.map((each) => [kindOf(each), contentOf(each)]));

function kindOf(each: KeyPart): string {
  if (typeof each !== "object" || each === null) return each === null ? "null" : typeof each;
  return each instanceof Date ? "date" : "bytes";
}

function contentOf(each: KeyPart): string {
  if (each instanceof Date) return String(each.getTime());
  if (each instanceof ArrayBuffer) return String(new Uint8Array(each));
  return String(each);
}

describe("a composite key", () => {
  test("has the same text only for the same list of parts", () => {
    fc.assert(
      fc.property(lists, lists, (a, b) => {
        expect(compositeKey(...a).text === compositeKey(...b).text).toBe(
          describeParts(a) === describeParts(b),
        );
      }),
      { numRuns: 2_000 },
    );
  });

  test("differs from the key of the same parts joined by a separator", () => {
    const pieces = fc.array(special, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(pieces, fc.constantFrom("", "|", "\\", "\\|", "\\\\"), (list, glue) => {
        fc.pre(list.length > 1);
        expect(compositeKey(list.join(glue)).text).not.toBe(compositeKey(...list).text);
      }),
      { numRuns: 500 },
    );
  });

  test.each<[parts: readonly KeyPart[], text: string]>([
    [["order", 17, "refund"], "order|#17|refund"],
    [["a", "b"], "a|b"],
    [[new Date(1_700_000_000_000)], "~d1700000000000"],
    [[new Date(-1)], "~d-1"],
    [[new Uint8Array([1, 2, 255])], "~bAQL/"],
    [[Buffer.from([1, 2, 255])], "~bAQL/"],
    [[new Uint8Array([1, 2, 255]).buffer], "~bAQL/"],
    [[new Uint8Array([0, 1, 2, 255]).subarray(1)], "~bAQL/"],
    [["~d0"], "\\~d0"],
    [["a|b"], "a\\|b"],
    [["a\\", "b"], "a\\\\|b"],
    [["a\\|b"], "a\\\\\\|b"],
    [["", ""], "|"],
    [["#17"], "\\#17"],
    [["?true"], "\\?true"],
    [["~"], "\\~"],
    [["\\#"], "\\\\#"],
    [["a#b?c~"], "a#b?c~"],
    [[1], "#1"],
    [["1"], "1"],
    [[1n], "#1n"],
    [[true], "?true"],
    [["true"], "true"],
    [[false], "?false"],
    [[null], "~"],
    [["null"], "null"],
    [[1.5], "#1.5"],
    [[-1], "#-1"],
    [[1e-7], "#1e-7"],
    [[Number.MAX_SAFE_INTEGER], "#9007199254740991"],
    [[Number.MIN_SAFE_INTEGER], "#-9007199254740991"],
    [[2n ** 70n], "#1180591620717411303424n"],
    [["客", "🔑"], "客|🔑"],
  ])("of %o is the text %s", (parts, text) => {
    const key = compositeKey(...parts);
    expect(key.text).toBe(text);
    expect(key.toString()).toBe(text);
    expect(`${key}`).toBe(text);
  });

  test("treats -0 as 0", () => {
    expect(compositeKey(-0).text).toBe("#0");
  });

  test("distinguishes a value from every other one that looks like it", () => {
    const lookalikes: readonly KeyPart[] = [
      1,
      "1",
      1n,
      "#1",
      "#1n",
      true,
      "true",
      "?true",
      null,
      "null",
      "~",
      "\\~",
      "",
    ];
    expect(new Set(lookalikes.map((each) => compositeKey(each).text)).size).toBe(13);
  });

  test.each([
    [["order", 17, "refund"], "960b6e76edfc1708"],
    [[null], "7ace431cb61584cb"],
  ])("of %j has a hash of 16 SHA-256 digits for log lines", (parts, hash) => {
    expect(compositeKey(...parts).hash).toBe(hash);
  });

  test("keeps its parts as given", () => {
    const operands: KeyPart[] = [640, true];
    const key = operationKey({ operation: "resize", arguments: operands });
    operands.push("changed later");
    expect(key.parts).toEqual(["operation", "resize", 640, true]);
    expect(key.text).toBe("operation|resize|#640|?true");
    expect(Object.is(compositeKey(-0).parts[0], -0)).toBe(true);
  });

  test("without parts is refused", () => {
    expect(() => compositeKey()).toThrow(expect.objectContaining({ code: "key-missing" }));
  });

  test.each<[what: string, bad: unknown, found: string]>([
    ["undefined", undefined, "part 1 of the key is undefined;"],
    ["NaN", Number.NaN, "part 1 of the key is NaN;"],
    ["Infinity", Number.POSITIVE_INFINITY, "part 1 of the key is Infinity;"],
    ["-Infinity", Number.NEGATIVE_INFINITY, "part 1 of the key is -Infinity;"],
    ["a number beyond 2^53", JSON.parse("9007199254740993"), "part 1 of the key is 9007199254740992;"],
    ["a negative number beyond 2^53", -(2 ** 53), "part 1 of the key is -9007199254740992;"],
    ["a very large number", 1e21, "part 1 of the key is 1e+21;"],
    ["a symbol", Symbol("s"), "part 1 of the key is a symbol;"],
    ["a function", () => "x", "part 1 of the key is a function;"],
    ["an object", {}, "part 1 of the key is an object;"],
    ["an array", ["x"], "part 1 of the key is an object;"],
    ["an invalid Date", new Date(Number.NaN), "part 1 of the key is an invalid date;"],
    ["an array of two-byte numbers", new Uint16Array(1), "part 1 of the key is an object;"],
    ["another key", compositeKey("x"), "part 1 of the key is an object;"],
    ["a lone surrogate", "\ud83d", "part 1 of the key is text with a lone surrogate;"],
  ])("refuses %s, and says which part it is", (_, bad, found) => {
    expect(() => compositeKey("order", bad as KeyPart)).toThrow(
      expect.objectContaining({ code: "key-invalid", message: expect.stringContaining(found) }),
    );
  });
});

describe("the builders", () => {
  test.each<[what: string, key: Key, text: string]>([
    ["an event", eventKey({ source: "github", id: "42" }), "event|github|42"],
    ["an event with a numeric id", eventKey({ source: "github", id: 42 }), "event|github|#42"],
    ["an action", actionKey({ resource: "payment", id: 17, action: "refund" }), "action|payment|#17|refund"],
    [
      "an action with a detail",
      actionKey({ resource: "payment", id: 17, action: "refund", detail: 500 }),
      "action|payment|#17|refund|#500",
    ],
    [
      "an action with null as its detail",
      actionKey({ resource: "payment", id: 17, action: "refund", detail: null }),
      "action|payment|#17|refund|~",
    ],
    [
      "an operation",
      operationKey({ operation: "resize", arguments: [640, true] }),
      "operation|resize|#640|?true",
    ],
    [
      "an operation without arguments",
      operationKey({ operation: "resize", arguments: [] }),
      "operation|resize",
    ],
  ])("write %s as text", (_, key, text) => {
    expect(key.text).toBe(text);
  });

  test("never make the same key for an event, an action and an operation", () => {
    fc.assert(
      fc.property(part, part, part, part, (a, b, c, d) => {
        const texts = [
          eventKey({ source: a, id: b }).text,
          actionKey({ resource: a, id: b, action: c }).text,
          actionKey({ resource: a, id: b, action: c, detail: d }).text,
          operationKey({ operation: a, arguments: [b] }).text,
          operationKey({ operation: a, arguments: [b, c] }).text,
          operationKey({ operation: a, arguments: [b, c, d] }).text,
        ];
        expect(new Set(texts).size).toBe(6);
      }),
    );
  });

  test("refuse a missing member", () => {
    const event = { source: "github" } as { source: string; id: string };
    expect(() => eventKey(event)).toThrow(expect.objectContaining({ code: "key-invalid" }));
  });

  test("are typed by their parts", () => {
    expectTypeOf(compositeKey("a", 1, 1n, true, null)).toEqualTypeOf<Key>();
    expectTypeOf(eventKey({ source: "a", id: 1 })).toEqualTypeOf<Key>();
    // @ts-expect-error an object cannot be a part of a key.
    expect(() => compositeKey({})).toThrow();
  });
});

describe("a guard", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  afterEach(() => guard.forget({ scope: "customer-7" }));

  test("treats a key and its text as the same key", async () => {
    const key = actionKey({ resource: "payment", id: 17, action: "refund" });
    const about = { operation: "refund", scope: "customer-7" };
    expect(await guard.run({ ...about, key }, () => "first")).toBe("first");
    expect(await guard.run({ ...about, key: "action|payment|#17|refund" }, () => "second")).toBe("first");
    expect((await guard.read({ ...about, key }))?.key).toBe("action|payment|#17|refund");
  });

  test("refuses a key whose text is too long", async () => {
    const key = compositeKey("x".repeat(512), "y".repeat(512));
    await expect(guard.run({ operation: "refund", key }, () => 1)).rejects.toMatchObject({
      code: "key-invalid",
    });
  });
});
