/**
 * Tests the digest of what a request means: RFC 8785 in every detail, and a refusal wherever JSON would drop or
 * coerce a value.
 */
import canonicalize from "canonicalize";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../src/core/canonical-json.ts";
import { fingerprintsDiffer, toFingerprint } from "../../src/core/fingerprint.ts";

describe("canonical JSON, by the examples of RFC 8785", () => {
  test("writes numbers, strings and literals as section 3.2.2 does", () => {
    const value = JSON.parse(String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`);
    expect(canonicalJson(value)).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    );
  });

  test("sorts names by UTF-16 code units as section 3.2.3 does: an emoji's surrogates before U+FB33", () => {
    const value = {
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis",
    };
    expect(canonicalJson(value)).toBe(
      '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    );
  });

  test.each([
    ["0000000000000000", "0"],
    ["8000000000000000", "0"],
    ["0000000000000001", "5e-324"],
    ["8000000000000001", "-5e-324"],
    ["7fefffffffffffff", "1.7976931348623157e+308"],
    ["ffefffffffffffff", "-1.7976931348623157e+308"],
    ["4340000000000000", "9007199254740992"],
    ["c340000000000000", "-9007199254740992"],
    ["4430000000000000", "295147905179352830000"],
    ["44b52d02c7e14af5", "9.999999999999997e+22"],
    ["44b52d02c7e14af6", "1e+23"],
    ["44b52d02c7e14af7", "1.0000000000000001e+23"],
    ["444b1ae4d6e2ef4e", "999999999999999700000"],
    ["444b1ae4d6e2ef4f", "999999999999999900000"],
    ["444b1ae4d6e2ef50", "1e+21"],
    ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
    ["3eb0c6f7a0b5ed8d", "0.000001"],
    ["41b3de4355555553", "333333333.3333332"],
    ["41b3de4355555554", "333333333.33333325"],
    ["41b3de4355555555", "333333333.3333333"],
    ["41b3de4355555556", "333333333.3333334"],
    ["41b3de4355555557", "333333333.33333343"],
    ["becbf647612f3696", "-0.0000033333333333333333"],
    ["43143ff3c1cb0959", "1424953923781206.2"],
  ])("writes the number with the bits %s as %s", (bits, text) => {
    expect(canonicalJson(Buffer.from(bits, "hex").readDoubleBE())).toBe(text);
  });

  test("escapes what JSON requires and nothing else", () => {
    expect(canonicalJson('\0\b\t\n\v\f\r\u001f "\\/\u007f\u2028\u2029é🔑')).toBe(
      '"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\"\\\\/\u007f\u2028\u2029é🔑"',
    );
  });

  test.each([
    [{}, "{}"],
    [[], "[]"],
    ["", '""'],
    [{ "": { "": [] } }, '{"":{"":[]}}'],
    [{ b: 1, a: { d: 2, c: 3 } }, '{"a":{"c":3,"d":2},"b":1}'],
    [{ 10: "ten", 9: "nine", "-1": "minus" }, '{"-1":"minus","10":"ten","9":"nine"}'],
  ])("writes %j without white space and with sorted names", (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  test("agrees with an independent implementation on every JSON value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: "binary" }), (value) => {
        expect(canonicalJson(value)).toBe(canonicalize(value));
      }),
      { numRuns: 500 },
    );
  });
});

describe("a fingerprint", () => {
  test.each([
    [{ amount: 1200, currency: "EUR" }, "2:zE2fcgwnU_s260xvxNW0TZ6khF1xzx-_4s1Npmn5hVU"],
    [{ "€": "é" }, "2:I7kt_GT9TIKCN7ElRC11xyksVoFt3SKTFNuslaXe2gE"],
    ["abc", "2:bMQ_hY-7djMBY3ta-XDipGtG9GHyfloPQeAJxZuCeyU"],
    [[1, 2], "2:SaZHF9XUyxmVLm6sKUZBXPaHmtrPmQjn2HIzLTLG5oQ"],
    [null, "2:dCNOmK_nSY-12vHzasLXiswzlGT5UHA7jAGYkvmCuQs"],
    [true, "2:tb6kG2xiP3wJ8b8k3K5Y66s8DN2QrZZrxDpFtEhn4Ss"],
  ])("of %j is its version and the SHA-256 of its canonical JSON", (meaning, fingerprint) => {
    expect(toFingerprint(meaning)).toBe(fingerprint);
  });

  test.each([
    ["no bytes", [], "2:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"],
    ["abc", [97, 98, 99], "2:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"],
    ["bytes that are not UTF-8", [0, 255, 128], "2:90K5ZfFWwQN0vCOuqW46iv-PrNb8B53v6qMCGa2G8hE"],
  ])("of bytes is the SHA-256 of the bytes unchanged: %s", (_, bytes, fingerprint) => {
    expect(toFingerprint(Uint8Array.from(bytes))).toBe(fingerprint);
    expect(toFingerprint(Buffer.from(bytes))).toBe(fingerprint);
  });

  test("of a view into a buffer covers only that view", () => {
    const part = new TextEncoder().encode("xabcx").subarray(1, 4);
    expect(toFingerprint(part)).toBe("2:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
  });

  test("does not depend on the order of the names", () => {
    const shuffled = fc
      .dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true })
      .chain((object) =>
        fc.tuple(
          fc.constant(object),
          fc.shuffledSubarray(Object.keys(object), { minLength: Object.keys(object).length }),
        ),
      );
    fc.assert(
      fc.property(shuffled, ([object, names]) => {
        const reordered = Object.fromEntries(names.map((name) => [name, object[name]]));
        expect(toFingerprint(reordered)).toBe(toFingerprint(object));
      }),
    );
  });

  test.each([
    ["1.0 and 1", JSON.parse("1.0"), 1],
    ["1e3 and 1000", JSON.parse("1e3"), 1000],
    ["-0 and 0", -0, 0],
    ["an object without a prototype and a plain one", Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    ["a name that is data, even __proto__", JSON.parse('{"__proto__":1}'), JSON.parse('{"__proto__":1}')],
  ])("is the same for %s", (_, a, b) => {
    expect(toFingerprint([a])).toBe(toFingerprint([b]));
  });

  test.each([
    ["null and an absent member", { a: null }, {}],
    ["null and false", null, false],
    ["null and 0", null, 0],
    ["1 and its string", 1, "1"],
    ["arrays in different order", [1, 2], [2, 1]],
    ["an array and an object with the same indexes", ["a"], { 0: "a" }],
    ["nested and flat arrays", [[1], 2], [1, [2]]],
    ["an empty object and an empty array", {}, []],
    ["a member called __proto__ and no member", JSON.parse('{"__proto__":1}'), {}],
    ["composed and decomposed letters", "caf\u00e9", "cafe\u0301"],
    ["text and its bytes", "abc", new TextEncoder().encode("abc")],
  ])("differs between %s", (_, a, b) => {
    expect(toFingerprint(a)).not.toBe(toFingerprint(b));
  });
});

class Money {
  readonly amount = 1;
}

function nested(levels: number): unknown {
  let value: unknown = [];
  for (let i = 1; i < levels; i++) value = [value];
  return value;
}

function circular(): unknown {
  const value: Record<string, unknown> = { name: "loop" };
  value.self = value;
  return value;
}

describe("refuses what JSON cannot represent, and names the path to it", () => {
  test.each<[what: string, meaning: unknown, message: string]>([
    ["nothing", undefined, "fingerprint is undefined,"],
    ["an undefined element", [1, undefined], "fingerprint.1 is undefined,"],
    ["a hole in an array", new Array(1), "fingerprint.0 is undefined,"],
    ["a function", { next: () => {} }, "fingerprint.next is a function,"],
    ["a method called toJSON", { toJSON: () => ({}) }, "fingerprint.toJSON is a function,"],
    ["a symbol", [Symbol("s")], "fingerprint.0 is a symbol,"],
    [
      "a symbol as a member name",
      { a: { [Symbol("s")]: 1 } },
      "fingerprint.a is an object with a symbol as a member name,",
    ],
    ["a bigint", { amount: 12n }, "fingerprint.amount is a bigint,"],
    ["NaN", { amount: Number.NaN }, "fingerprint.amount is NaN,"],
    ["Infinity", [Number.POSITIVE_INFINITY], "fingerprint.0 is Infinity,"],
    ["-Infinity", Number.NEGATIVE_INFINITY, "fingerprint is -Infinity,"],
    ["a Date", { when: new Date(0) }, "fingerprint.when is an instance of Date,"],
    ["a Map", { lines: new Map() }, "fingerprint.lines is an instance of Map,"],
    ["a Set", new Set(), "fingerprint is an instance of Set,"],
    ["a class instance", { total: new Money() }, "fingerprint.total is an instance of Money,"],
    [
      "an object whose class has no name",
      Object.create({ constructor: undefined }),
      "an instance of a class,",
    ],
    ["a boxed number", [new Object(1)], "fingerprint.0 is an instance of Number,"],
    ["bytes inside a value", { body: new Uint8Array(1) }, "fingerprint.body is an instance of Uint8Array,"],
    ["an ArrayBuffer", new ArrayBuffer(1), "fingerprint is an instance of ArrayBuffer,"],
    ["a lone surrogate", { name: ["\ud83d"] }, "fingerprint.name.0 is a string with a lone surrogate,"],
    [
      "a lone surrogate in a name",
      { a: { "\udd11": 1 } },
      "fingerprint.a is an object whose member name has a lone",
    ],
    ["a circular value", circular(), "nested deeper than 128 levels (or circular),"],
    ["129 levels", nested(129), "nested deeper than 128 levels (or circular),"],
    [
      "an array with a named member",
      [Object.assign([1], { note: "x" })],
      "fingerprint.0 is an array with a name",
    ],
  ])("%s", (_, meaning, message) => {
    expect(() => toFingerprint(meaning)).toThrow(
      expect.objectContaining({ code: "fingerprint-invalid", message: expect.stringContaining(message) }),
    );
  });

  test("but 128 levels are accepted", () => {
    expect(canonicalJson(nested(128))).toBe("[".repeat(128) + "]".repeat(128));
  });

  test("and a value used twice is not circular", () => {
    const address = { city: "Wien" };
    expect(canonicalJson({ from: address, to: address })).toBe(
      '{"from":{"city":"Wien"},"to":{"city":"Wien"}}',
    );
  });

  test("and the message says what to pass instead", () => {
    expect(() => toFingerprint({ when: new Date(0) })).toThrow(
      "fingerprint-invalid: fingerprint.when is an instance of Date, which JSON cannot represent. Give plain JSON values (a date as its ISO string, a bigint as a string), or the request's bytes as a Uint8Array.",
    );
  });
});

describe("whether two fingerprints conflict:", () => {
  test.each([
    ["with one side missing", "1:aa", undefined, false],
    ["with the other side missing", undefined, "1:aa", false],
    ["with both sides missing", undefined, undefined, false],
    ["that are the same", "1:aa", "1:aa", false],
    ["of the same version with different digests", "1:aa", "1:bb", true],
    ["of different versions", "1:aa", "2:bb", false],
    ["of different versions with the same digest", "1:aa", "2:aa", false],
    ["of versions that start with the same digit", "1:aa", "12:aa", false],
    ["without a version, as another program might make them", "aa", "bb", true],
    ["of which one has a version", "1:aa", "aa", false],
  ])("%s", (_, a, b, differ) => {
    expect(fingerprintsDiffer(a, b)).toBe(differ);
  });
});
