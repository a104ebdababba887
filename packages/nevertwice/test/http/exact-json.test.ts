/** Tests how JSON bodies are compared: by value, or by bytes if a value could not represent all of the body. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../src/core/canonical-json.ts";
import { toFingerprint } from "../../src/core/fingerprint.ts";
import { type MeaningHow, requestMeaning } from "../../src/http/request-meaning.ts";

const REQUEST = { method: "POST", target: "/charges", contentType: "application/json" };

function meaning(body: string | Uint8Array, how: MeaningHow = "json") {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  return requestMeaning(REQUEST, { kind: "bytes", bytes }, how) as [string, string, string, unknown];
}
const print = (body: string | Uint8Array) => toFingerprint(meaning(body));
const kindOf = (body: string | Uint8Array) => meaning(body)[2];

describe("two JSON bodies", () => {
  it("FP-01 mean the same with their members in another order and other white space", () => {
    const body = '{"amount":5,"card":{"last4":"4242","name":"Ada"}}';
    const other = ' {\r\n\t"card": {"name":"Ada" , "last4" : "4242"},\n"amount" :5 } ';
    expect(print(other)).toBe(print(body));
    expect(print(body.replace("Ada", "Bob"))).not.toBe(print(body));
  });

  it("FP-01 mean the same however their text is escaped", () => {
    expect(print('{"\\u0061":"\\u20AC\\/\\ud83d\\ude00\\t"}')).toBe(print('{"a":"\u20ac/\u{1f600}\\u0009"}'));
  });

  it("FP-02 mean the same with one number spelt in two ways", () => {
    const equal = [
      ["1", "1.0", "1.000000000000000000000", "10e-1", "0.1E+1", "1e0", "100000000000000000000e-20"],
      ["0", "-0", "0.0", "0e5", "-0.0e-400", "0e99999999999999999999"],
      ["0.1", "1e-1", "0.10", "10.0e-2"],
      ["1e21", "1000000000000000000000", "1.0E21"],
      ["9007199254740992", "9007199254740992.0", "9.007199254740992e15"],
      ["5e-324", "0.5e-323", "50e-325"],
      ["0.30000000000000004", "3.0000000000000004e-1"],
    ];
    for (const spellings of equal) {
      expect(spellings.map((text) => kindOf(`[${text}]`))).toEqual(spellings.map(() => "json"));
      expect(new Set(spellings.map((text) => print(`[${text}]`))).size).toBe(1);
    }
    expect(new Set(equal.map(([text]) => print(`[${text}]`))).size).toBe(equal.length);
    expect(print("[-1]")).not.toBe(print("[1]"));
  });

  it("FP-03 differ by the order of an array", () => {
    expect(print('{"a":[1,2]}')).not.toBe(print('{"a":[2,1]}'));
  });

  it("FP-04 differ by a null that the other leaves out", () => {
    expect(print('{"a":null}')).not.toBe(print("{}"));
    expect(print("[null]")).not.toBe(print("[]"));
  });

  it("FP-02 differ by the type of a value", () => {
    const bodies = ["1", '"1"', "true", '"true"', "null", '"null"', "[]", "{}", '""', "[[]]", "[{}]"];
    expect(new Set(bodies.map(print)).size).toBe(bodies.length);
  });
});

describe("FP-13 a body is compared by its bytes", () => {
  it.each([
    '{"a":1,"a":1}',
    '{"a":1,"a":2}',
    '{"a":1,"\\u0061":1}',
    '{"a":{"b":1,"c":2},"a":{"b":1,"c":2}}',
    '[{"x":[{"a":1,"b":2,"a":3}]}]',
    '{"__proto__":1,"__proto__":2}',
    '{"1":1,"01":1,"1":1}',
    '{"":0,"":0}',
  ])("if a member occurs twice: %s", (text) => {
    expect(kindOf(text)).toBe("bytes");
    expect(print(text)).not.toBe(print(` ${text}`));
  });

  it.each([
    "9007199254740993",
    "-9007199254740993",
    "12345678901234567890",
    "1180591620717411303424",
    "1726000000000000123",
    "0.1234567890123456789",
    "0.1000000000000000055511151231257827",
    "1.00000000000000001",
    "3.141592653589793238",
    "1e400",
    "-1e400",
    "1e309",
    "1e-400",
    "4e-324",
    "123e-325",
    "0.00000000000000000000000000001e-300",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "179769313486231580793728971405301199999999999999e270",
  ])("if a double cannot represent its number %s", (text) => {
    expect(kindOf(`{"a":${text}}`)).toBe("bytes");
    expect(print(`{"a":${text}}`)).not.toBe(print(`{"a": ${text}}`));
    expect(kindOf(JSON.stringify({ a: text }))).toBe("json");
  });

  it("if it is not JSON", () => {
    for (const text of [
      "{",
      "{'a':1}",
      '{"a":1,}',
      "[1 2]",
      "01",
      "1.",
      ".5",
      "+1",
      "NaN",
      "1e",
      "tru",
      '"\t"',
      '"\\x"',
      '{"a"}',
      "1 1",
      "\ufeff{}",
      " ",
      '"',
      '"\\',
      "[1]]",
      "\u00a0{}",
      "//x\n1",
      "-",
    ])
      expect([text, kindOf(text)]).toEqual([text, "bytes"]);
  });

  it("if it is not UTF-8", () => {
    const bodies = [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80, 0x80]];
    for (const bad of bodies) expect(kindOf(Buffer.from([0x22, ...bad, 0x22]))).toBe("bytes");
    expect(kindOf(Buffer.from('["\ufffd\u20ac"]'))).toBe("json");
    expect(kindOf(Buffer.from('{"a":1}', "utf16le"))).toBe("bytes");
  });

  it("if it contains an escaped lone surrogate", () => {
    for (const text of [
      '"\\ud800"',
      '"\\uDC00"',
      '{"\\ud83d":1}',
      '["\\ude00\\ud83d"]',
      '{"a":["\\udbff"]}',
    ]) {
      expect([text, kindOf(text)]).toEqual([text, "bytes"]);
      expect(print(text)).not.toBe(print(` ${text}`));
    }
    for (const text of ['"\\ud83d\\uDE00"', '"\\\\ud800"', '"\\u0064"']) expect(kindOf(text)).toBe("json");
  });

  it("if it is nested deeper than 100 levels", () => {
    const nested = (depth: number) => `${"[".repeat(depth)}1.0${"]".repeat(depth)}`;
    const members = (depth: number) => `${'{"a":'.repeat(depth)}1.0${"}".repeat(depth)}`;
    for (const text of [nested, members]) {
      expect([kindOf(text(100)), kindOf(text(101))]).toEqual(["json", "bytes"]);
      expect(print(text(100))).toBe(print(text(100).replace("1.0", "1")));
      expect(print(text(101))).toMatch(/^2:/);
    }
    expect(toFingerprint(meaning(members(100), { fields: ["a"] }))).toMatch(/^2:/);
    expect(kindOf(`[${new Array(1000).fill("[]").join()}]`)).toBe("json");
  });
});

describe("a hostile body", () => {
  it("keeps members called __proto__ and constructor as data", () => {
    const text = '{"__proto__":{"admin":true},"constructor":{"prototype":1}}';
    expect(print(text)).not.toBe(print('{"constructor":{"prototype":1}}'));
    expect(print(text)).not.toBe(print(text.replace("true", "false")));
    expect(canonicalJson(meaning(text)[3])).toBe(text);
    expect("admin" in {}).toBe(false);
  });

  const list = (length: number, element: string) => `[${new Array(length).fill(element).join()}]`;
  it.each([
    ["open brackets", "bytes", () => "[".repeat(1_000_000)],
    ["open braces", "bytes", () => '{"a":'.repeat(200_000)],
    ["colons", "bytes", () => ":".repeat(1_000_000)],
    ["quotes", "bytes", () => '"'.repeat(1_000_001)],
    ["backslashes", "json", () => `"${"\\".repeat(1_000_000)}"`],
    ["digits", "bytes", () => "1".repeat(1_000_000)],
    ["zeros behind the point", "json", () => `1.${"0".repeat(1_000_000)}`],
    ["zeros before the last digit", "bytes", () => `0.${"0".repeat(1_000_000)}1`],
    ["zeros outweighed by the exponent", "json", () => `0.${"0".repeat(999_999)}1e1000000`],
    ["numbers with large exponents", "json", () => list(170_000, "1e299")],
    ["numbers with many digits", "json", () => list(50_000, "0.30000000000000004")],
    ["escaped surrogates", "json", () => list(80_000, '"\\ud83d\\ude00"')],
    [
      "members",
      "json",
      () => JSON.stringify(Object.fromEntries(Array.from(new Array(50_000).keys(), (i) => [`k${i}`, i]))),
    ],
  ])("of a megabyte of %s is still read", (_, kind, text) => {
    expect(kindOf(text())).toBe(kind);
  });

  it("of any bytes has a meaning that the engine accepts", () => {
    const jsonLike = fc.string({ unit: fc.constantFrom(...'{}[]:,"\\u0d8e-+.19 \n\u00e9'), maxLength: 20 });
    const noise = fc.oneof(
      jsonLike.map((text) => new TextEncoder().encode(text)),
      fc.uint8Array({ maxLength: 20 }),
    );
    fc.assert(
      fc.property(noise, fc.constantFrom<MeaningHow>("json", "raw", { fields: ["0", "a"] }), (bytes, how) => {
        expect(toFingerprint(meaning(bytes, how))).toMatch(/^2:[\w-]{43}$/);
      }),
      { numRuns: 5000 },
    );
  });
});
