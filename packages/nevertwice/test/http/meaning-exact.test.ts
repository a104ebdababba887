/** Tests the meaning of JSON bodies against an independent exact comparison: no digit and no member is lost. */
import canonicalize from "canonicalize";
import fc, { type GeneratorValue } from "fast-check";
import { expect, it } from "vitest";
import { canonicalJson } from "../../src/core/canonical-json.ts";
import { toFingerprint } from "../../src/core/fingerprint.ts";
import { requestMeaning } from "../../src/http/request-meaning.ts";

const REQUEST = { method: "POST", target: "/charges", contentType: "application/json" };

const meaning = (text: string) =>
  requestMeaning(REQUEST, { kind: "bytes", bytes: Buffer.from(text) }, "json") as [
    string,
    string,
    string,
    unknown,
  ];
const print = (text: string) => toFingerprint(meaning(text));
const kindOf = (text: string) => meaning(text)[2];

/** A JSON value with its numbers as exact decimals: `digits` times ten to the `power`. */
type Exact =
  | { kind: "literal"; literal: string }
  | { kind: "number"; digits: bigint; power: number }
  | { kind: "text"; text: string }
  | { kind: "array"; elements: Exact[] }
  | { kind: "object"; members: [name: string, value: Exact][] };

const TEXTS = ["", "a", "b", "\u00e9", "\u20ac", "\u{1f600}", '"\\', "\u0000\n", "__proto__", "1", "\ud83d"];
const text = fc.constantFrom(...TEXTS);
const literal = fc.constantFrom("null", "true", "false");
const digits = fc.oneof(
  fc.bigInt(-12n, 12n),
  fc.bigInt(-(10n ** 19n), 10n ** 19n),
  fc.bigInt(2n ** 53n - 3n, 2n ** 53n + 3n),
);
const power = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.integer({ min: -345, max: 320 }));
const { exact } = fc.letrec<{ exact: Exact }>((tie) => {
  const elements = fc.array(tie("exact"), { maxLength: 3 });
  const members = fc.array(fc.tuple(text, tie("exact")), { maxLength: 3 });
  const number = fc.record({ kind: fc.constant("number"), digits, power });
  return {
    exact: fc.oneof(
      { maxDepth: 3, depthSize: "small" },
      fc.record({ kind: fc.constant("literal"), literal }),
      { weight: 3, arbitrary: number },
      fc.record({ kind: fc.constant("text"), text }),
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("array"), elements }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("object"), members }) },
    ),
  };
});

/** Equal for equal values: numbers compared as decimals, members by name. */
function exactForm(value: Exact): string {
  switch (value.kind) {
    case "literal":
      return value.literal;
    case "number":
      return decimalForm(value.digits, value.power);
    case "text":
      return JSON.stringify(value.text);
    case "array":
      return `[${value.elements.map(exactForm).join()}]`;
    case "object":
      return `{${value.members
        .map(([name, member]) => `${JSON.stringify(name)}:${exactForm(member)}`)
        .sort()
        .join()}}`;
  }
}

function decimalForm(digits: bigint, power: number): string {
  if (digits === 0n) return "0";
  return digits % 10n === 0n ? decimalForm(digits / 10n, power + 1) : `${digits}e${power}`;
}

/** Whether a JavaScript value can represent it: no name twice, no lone surrogate, and no number that changes. */
function isCarried(value: Exact): boolean {
  switch (value.kind) {
    case "literal":
      return true;
    case "number": {
      const double = Number(`${value.digits}e${value.power}`);
      const [, sign = "", whole = "0", fraction = "", power = "0"] =
        /^(-?)(\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(String(double)) ?? [];
      const isSame =
        decimalForm(BigInt(sign + whole + fraction), Number(power) - fraction.length) === exactForm(value);
      return Number.isFinite(double) && isSame;
    }
    case "text":
      return value.text.isWellFormed();
    case "array":
      return value.elements.every(isCarried);
    case "object": {
      const names = value.members.map(([name]) => name);
      const isOnce = new Set(names).size === names.length;
      return (
        isOnce &&
        names.every((name) => name.isWellFormed()) &&
        value.members.every(([, member]) => isCarried(member))
      );
    }
  }
}

/** One of the many texts of a value. */
function write(value: Exact, g: GeneratorValue): string {
  const blank = () => g(() => fc.constantFrom("", "", "", " ", "\n", "\t\r "));
  const list = (texts: string[]) => texts.join(`${blank()},${blank()}`);
  switch (value.kind) {
    case "literal":
      return value.literal;
    case "number":
      return writeNumber(value.digits, value.power, g);
    case "text":
      return writeText(value.text, g);
    case "array":
      return `[${blank()}${list(value.elements.map((element) => write(element, g)))}${blank()}]`;
    case "object": {
      const members = value.members.map(
        ([name, member]) => `${writeText(name, g)}${blank()}:${blank()}${write(member, g)}`,
      );
      return `{${blank()}${list(g(() => fc.boolean()) ? members : members.reverse())}${blank()}}`;
    }
  }
}

function writeNumber(digits: bigint, power: number, g: GeneratorValue): string {
  const zeros = digits === 0n ? 0 : g(() => fc.integer({ min: 0, max: 4 }));
  const sign = digits < 0n ? "-" : "";
  const text = `${digits < 0n ? -digits : digits}${"0".repeat(zeros)}`;
  // The exponent makes up for moving the point to the left by `fraction` places.
  const fraction = g(() => fc.integer({ min: 0, max: 25 }));
  const padded = text.padStart(fraction + 1, "0");
  const point = padded.length - fraction;
  const mantissa = fraction === 0 ? padded : `${padded.slice(0, point)}.${padded.slice(point)}`;
  const exponent = power - zeros + fraction;
  if (exponent === 0 && g(() => fc.boolean())) return sign + mantissa;
  const mark = g(() => fc.constantFrom("e", "E"));
  return `${sign}${mantissa}${mark}${exponent >= 0 ? g(() => fc.constantFrom("", "+")) : ""}${exponent}`;
}

function writeText(text: string, g: GeneratorValue): string {
  const written = Array.from(text, (character) => {
    const mustEscape = character < " " || '"\\'.includes(character) || !character.isWellFormed();
    return mustEscape || g(() => fc.integer({ min: 0, max: 3 })) === 0 ? escaped(character, g) : character;
  });
  return `"${written.join("")}"`;
}

function escaped(character: string, g: GeneratorValue): string {
  const units = character.split("").map((unit) => unit.charCodeAt(0).toString(16).padStart(4, "0"));
  return units.map((hex) => `\\u${g(() => fc.boolean()) ? hex : hex.toUpperCase()}`).join("");
}

/** Two values that are often equal, or nearly so. */
const pair = fc.oneof(
  fc.tuple(exact, exact),
  exact.map((value) => [value, value] as const),
  fc.tuple(exact, fc.bigInt(-1n, 1n)).map(([value, step]) => [value, nudged(value, step)] as const),
);

function nudged(value: Exact, step: bigint): Exact {
  switch (value.kind) {
    case "number":
      return { ...value, digits: value.digits + step };
    case "array":
      return { ...value, elements: value.elements.map((element) => nudged(element, step)) };
    case "object":
      return { ...value, members: value.members.map(([name, member]) => [name, nudged(member, step)]) };
    default:
      return value;
  }
}

it("FP-13 two JSON texts mean the same if they are equal in every digit, or if their bytes are equal", () => {
  const seen = { same: 0, different: 0, bytes: 0 };
  fc.assert(
    fc.property(pair, fc.gen(), ([a, b], g) => {
      const [textA, textB] = [write(a, g), write(b, g)];
      const [carriedA, carriedB] = [isCarried(a), isCarried(b)];
      expect([textA, kindOf(textA)]).toEqual([textA, carriedA ? "json" : "bytes"]);
      expect([textB, kindOf(textB)]).toEqual([textB, carriedB ? "json" : "bytes"]);
      const isSame = carriedA && carriedB ? exactForm(a) === exactForm(b) : textA === textB;
      expect([textA, textB, print(textA) === print(textB)]).toEqual([textA, textB, isSame]);
      if (carriedA) expect(canonicalJson(meaning(textA)[3])).toBe(canonicalize(JSON.parse(textA)));
      seen[carriedA && carriedB ? (isSame ? "same" : "different") : "bytes"]++;
    }),
    { numRuns: 2000, endOnFailure: true },
  );
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100);
});
