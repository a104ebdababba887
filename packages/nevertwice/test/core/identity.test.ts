/**
 * Tests identities and derived keys. The expected digests were computed independently of this code, from the written
 * rule: SHA-256 over each part's length in UTF-8 bytes, a colon, and the part.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ErrorCode } from "../../src/core/errors.ts";
import { checkedPart, deriveKey, MAX_PART_BYTES, shortHash, toIdentity } from "../../src/core/identity.ts";
import type { Parts } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

type Tuple = readonly [namespace: string, scope: string, operation: string, key: string];

const toParts = ([namespace, scope, operation, key]: Tuple): Parts => ({ namespace, scope, operation, key });
const idOf = (tuple: Tuple) => toIdentity(toParts(tuple)).id;
const failure = (code: ErrorCode, words: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });

const CHARGE: Tuple = ["shop", "customer-7", "charge", "order-42"];
const FOREIGN: Tuple = ["läden", "客户", "überweisung", "🔑-1"];

const UNSCOPED: Tuple = ["default", "", "charge", "order-42"];
const LONGEST_KEY: Tuple = ["a", "b", "c", "k".repeat(1_024)];
const COLONS: Tuple = ["shop", "customer-7", "charge", "1:2:3"];

const ID_VECTORS: readonly [what: string, tuple: Tuple, id: string][] = [
  ["parts without a scope", UNSCOPED, "eabb26117c2b1e841248156170277fb589c942f2801b0b7e4c211c42950aa03b"],
  ["all four parts", CHARGE, "ecd3a5f77bfd5dd82b9fc02e7509489615210697b104d66353587fd5988d5d05"],
  [
    "parts with multi-byte characters",
    FOREIGN,
    "ceb6cbcd000faeb5e03d2f248486ddfb5f48126c3f5d58d54d2f8d5f6cfc1e0f",
  ],
  ["the longest key", LONGEST_KEY, "0ae1883d5abd690badb91f2087e6ca1076d4c1cbc7c71f0bfd37739dab3affa8"],
  ["a key of digits and colons", COLONS, "ce0d15243d62e4a470aff1e9db4711c2cdf0d485de5854219232f82f38d48038"],
];

const DERIVED_VECTORS: readonly [name: string, what: string, tuple: Tuple, derived: string][] = [
  ["psp", "parts without a scope", UNSCOPED, "4bLsg61ojKy1b1Nw1rBdt4CtZqWWXebxaEf4280z4s8"],
  ["email", "parts without a scope", UNSCOPED, "dk3gGHjwj-gr7M4ZbfK7yFKu8ErI_97y_nM4maPBuR4"],
  ["psp", "all four parts", CHARGE, "WkVSIcxjHPBb3rI7zcgOxBBO0WxpuiPbl59cljLMPMY"],
  ["email", "all four parts", CHARGE, "xFME_NAzvW4-QrxD0KfToiy68C2VKc_HaEBjU9YAXac"],
  ["überweisung 🔑", "all four parts", CHARGE, "S-ugIJ3VifyomVFRAGwq4tjrTYasz77u_tYQ2iwo_6U"],
  ["psp", "parts with multi-byte characters", FOREIGN, "i6x5r0WqhG2_URQx2nzTTKosuSJxA_nNsHD1w9FynEo"],
  ["psp", "the longest key", LONGEST_KEY, "D5PifvbV1S-8mgsL2CIBdjCbc0NvB55vhAmHxeZXgvY"],
];

describe("the id", () => {
  test.each(ID_VECTORS)("of %s never changes between versions", (_, tuple, id) => {
    expect(toIdentity(toParts(tuple))).toEqual({ id, parts: toParts(tuple) });
  });

  test("stays the same when more namespaces and operations were used in between than are remembered", () => {
    for (let i = 0; i < 300; i++) {
      idOf(["default", "", `charge ${i}`, "order-42"]);
      idOf([`shop ${i}`, "", "charge", "order-42"]);
    }
    for (const [, tuple, id] of ID_VECTORS) expect(idOf(tuple)).toBe(id);
  });

  test("differs between composed and decomposed letters: parts are compared byte by byte", () => {
    const composed = "742b38e8246712666724104f691cebdb99727dea30bdac97159af4d50a75625b";
    const decomposed = "cfb0449ea9127a397373559dbeebc82c1dd892878f76c578969b24e7377afdd1";
    expect(idOf(["shop", "", "charge", "caf\u00e9"])).toBe(composed);
    expect(idOf(["shop", "", "charge", "cafe\u0301"])).toBe(decomposed);
  });

  test("differs by case and by white space: nothing is trimmed or folded", () => {
    const ids = ["key", "Key", "key ", " key", "key\n", "key\0"].map((key) => idOf(["a", "b", "c", key]));
    expect(new Set(ids).size).toBe(6);
  });

  test("is shortened to its first 16 digits in logs", () => {
    expect(shortHash("ecd3a5f77bfd5dd82b9fc02e7509489615210697b104d66353587fd5988d5d05")).toBe(
      "ecd3a5f77bfd5dd8",
    );
  });
});

/** Text that looks like our own framing: digits, colons, and separators of a naive join. */
const framing = fc.string({
  unit: fc.constantFrom("0", "1", "2", "9", ":", "|", "/", "a", "\0", "é", "🔑"),
  maxLength: 12,
});
const part = fc.oneof(framing, fc.string({ unit: "grapheme", maxLength: 20 }));
const name = part.filter((text) => text !== "");
const tuples = fc.tuple(part, part, part, part);
/** Two ways to cut the same text into four parts, with every shift of characters between neighbours. */
const cuts = fc
  .tuple(
    fc.array(fc.constantFrom("0", "1", "3", ":", "a", "é", "🔑"), { minLength: 1, maxLength: 16 }),
    fc.infiniteStream(fc.nat(16)),
  )
  .map(([characters, positions]) => {
    const cut = (): Tuple => {
      const [a, b, c] = [...positions.take(3)].sort((x, y) => x - y) as [number, number, number];
      const between = (start: number, end?: number) => characters.slice(start, end).join("");
      return [between(0, a), between(a, b), between(b, c), between(c)];
    };
    return [cut(), cut()] as const;
  });

describe("no two identities share an id", () => {
  test.each([
    ["for any parts", fc.tuple(tuples, tuples)],
    ["wherever the same text is cut into parts", cuts],
  ])("%s", (_, pairs) => {
    const agrees = fc.property(pairs, ([a, b]) => {
      expect(idOf(a) === idOf(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
    });
    fc.assert(agrees, { numRuns: 1_000 });
  });

  test("when characters, digits and colons move from one part to the next", () => {
    const rivals: readonly Tuple[] = [
      ["shop", "1", "charge", "2"],
      ["shop1", "", "charge", "2"],
      ["shop", "", "1charge", "2"],
      ["shop", "1:", "charge", "2"],
      ["shop", "1", ":charge", "2"],
      ["shop", "1", "charge", ":2"],
      ["shop", "16:charge", "", "2"],
      ["shop", "1", "charge1:2", ""],
      ["shop", "1", "charge", "21:"],
      ["shop1:1", "", "charge", "2"],
      ["4:shop", "1", "charge", "2"],
      ["", "shop", "1", "charge2"],
    ];
    expect(new Set(rivals.map(idOf)).size).toBe(12);
  });

  test("and no two derived keys are the same", () => {
    fc.assert(
      fc.property(tuples, tuples, name, name, (a, b, nameOfA, nameOfB) => {
        const isSame = JSON.stringify([...a, nameOfA]) === JSON.stringify([...b, nameOfB]);
        expect(deriveKey(toParts(a), nameOfA) === deriveKey(toParts(b), nameOfB)).toBe(isSame);
      }),
    );
  });
});

describe("a part", () => {
  const LONGEST: readonly (readonly [what: string, text: string])[] = [
    ["1,024 one-byte characters", "a".repeat(1_024)],
    ["512 two-byte characters", "é".repeat(512)],
    ["the first two-byte character", "\u0080".repeat(512)],
    ["the last two-byte character", "\u07ff".repeat(512)],
    ["the first three-byte character", `${"\u0800".repeat(341)}a`],
    ["the last character before the surrogates", `${"\ud7ff".repeat(341)}a`],
    ["the first character after the surrogates", `${"\ue000".repeat(341)}a`],
    ["the last three-byte character", `${"\uffff".repeat(341)}a`],
    ["the first four-byte character", "\u{10000}".repeat(256)],
    ["the last four-byte character", "\u{10ffff}".repeat(256)],
    ["341 three-byte characters and a one-byte one", `${"客".repeat(341)}a`],
    ["256 four-byte characters of two code units each", "🔑".repeat(256)],
  ];

  test.each(LONGEST)("may have at most 1,024 bytes in UTF-8: %s", (_, text) => {
    expect(MAX_PART_BYTES).toBe(1_024);
    expect(toIdentity(toParts(["a", "b", "c", text])).parts.key).toBe(text);
    expect(() => idOf(["a", "b", "c", `${text}a`])).toThrow(failure("key-invalid", "key has 1025 bytes"));
  });

  test.each([
    ["a high surrogate at the end", "order-\ud83d"],
    ["a low surrogate at the start", "\udd11-order"],
    ["a high surrogate in front of a letter", "\ud83dx"],
    ["the first surrogate", "\ud800"],
    ["the last high surrogate", "\udbff"],
    ["the first low surrogate", "\udc00"],
    ["the last surrogate", "\udfff"],
    ["the first high surrogate in front of the first character after the surrogates", "\ud800\ue000"],
    ["surrogates in the wrong order", "\udd11\ud83d"],
    ["two high surrogates in front of a low one", "\ud83d\ud83d\udd11"],
  ])("must be well-formed text, not %s", (_, text) => {
    expect(() => idOf(["a", "b", "c", text])).toThrow(
      failure("key-invalid", "key contains a lone surrogate"),
    );
  });

  test.each([
    [undefined, "undefined"],
    [null, "null"],
    [7, "a number"],
    [7n, "a bigint"],
    [true, "a boolean"],
    [Symbol("key"), "a symbol"],
    [() => "key", "a function"],
    [{ text: "key" }, "an object"],
    [new Object("key"), "an object"],
  ])("must be a string, not %o", (value, found) => {
    expect(() => checkedPart(value, "key", "key-invalid")).toThrow(
      failure("key-invalid", `key is ${found}; it must be a string`),
    );
  });

  test.each([
    ["namespace", "options-invalid"],
    ["scope", "options-invalid"],
    ["operation", "options-invalid"],
    ["key", "key-invalid"],
  ] as const)("is named in the error if it is invalid: %s throws %s", (name, code) => {
    const good = toParts(CHARGE);
    for (const bad of ["x".repeat(1_025), "\ud800", 7 as unknown as string]) {
      expect(() => toIdentity({ ...good, [name]: bad })).toThrow(failure(code, `${name} `));
    }
  });

  test("may not be empty if it is checked alone", () => {
    expect(() => checkedPart("", "name", "key-invalid")).toThrow(failure("key-invalid", "name "));
  });

  test("is returned unchanged if it is valid", () => {
    expect(checkedPart("order-42", "key", "key-invalid")).toBe("order-42");
  });
});

describe("deriveKey", () => {
  test.each(DERIVED_VECTORS)("for %s of %s never changes between versions", (name, _, tuple, derived) => {
    expect(deriveKey(toParts(tuple), name)).toBe(derived);
  });

  test("is URL-safe and always 43 characters long", () => {
    fc.assert(
      fc.property(tuples, name, (tuple, named) => {
        expect(deriveKey(toParts(tuple), named)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      }),
    );
  });

  test.each([
    ["a number", 7],
    ["undefined", undefined],
    ["null", null],
    ["a lone surrogate", "\ud800"],
    ["1,025 bytes", "x".repeat(1_025)],
    ["an empty string", ""],
  ])("refuses %s as a name", (_, named) => {
    expect(() => deriveKey(toParts(CHARGE), named as string)).toThrow(failure("key-invalid", "name "));
  });

  test("is passed to the work, the same for every attempt", async () => {
    const guard = createGuard({ store: memoryStore(), namespace: "shop", purgeEveryMs: 0 });
    const request = { operation: "charge", scope: "customer-7", key: "order-42" };
    const seen: [number: number, derived: string][] = [];
    const failing = guard.run(request, async (attempt) => {
      seen.push([attempt.number, attempt.deriveKey("psp")]);
      throw new Error("the provider is down");
    });
    await expect(failing).rejects.toThrow("the provider is down");
    await guard.run(request, async (attempt) => {
      seen.push([attempt.number, attempt.deriveKey("psp")]);
    });
    expect(seen).toEqual([
      [1, "WkVSIcxjHPBb3rI7zcgOxBBO0WxpuiPbl59cljLMPMY"],
      [2, "WkVSIcxjHPBb3rI7zcgOxBBO0WxpuiPbl59cljLMPMY"],
    ]);
    await guard.close();
  });
});
