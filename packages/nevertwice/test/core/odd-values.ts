/** Draws values of every kind that an application may pass or return: JSON values most of the time, and what JSON cannot represent. */
import type { Random } from "../../src/testing/random.ts";

const TEXTS = [
  ...[
    "",
    "a",
    "€",
    "ö",
    "10",
    "9",
    "-1",
    "__proto__",
    "constructor",
    "toString",
    "toJSON",
    "length",
    "$",
    "v",
  ],
  ...['"', "\\", "\0", "\n", "\u001f", "\u007f", "\u2028", "\ud83d\ude00", "\ufb33", "\u00e9", "e\u0301"],
  ...["id", "amount", "currency", "customer", "items", "note", "x".repeat(70), "é".repeat(200)],
];
const LONE_SURROGATES = ["\ud83d", "\ude00", "a\ud800b", "\udfff\ud800"];
const NUMBERS = [
  ...[0, -0, 1, -1, 0.1, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 2 ** 53, -(2 ** 53), 2 ** 31, 2 ** 32],
  ...[333333333.3333333, 9.999999999999997e22, 0.000001, 4_200, -4.5, 1e300 * 1e-300],
];

class Money {
  readonly amount = 1;
}

/** How often a draw is something that JSON cannot represent. */
export interface OddValueRates {
  readonly odd: number;
  readonly deep: number;
}

export function drawValue(random: Random, rates: OddValueRates, depth = 0): unknown {
  if (random.chance(rates.odd)) return drawOdd(random, rates, depth);
  const isLeaf = depth > 5 || !random.chance(depth === 0 ? 0.95 : rates.deep);
  if (isLeaf) return drawLeaf(random);
  return random.chance(0.3) ? drawArray(random, rates, depth) : drawObject(random, rates, depth);
}

function drawLeaf(random: Random): unknown {
  switch (random.between(0, 5)) {
    case 0:
      return random.pick([null, true, false]);
    case 1:
      return random.pick(NUMBERS);
    case 2:
      return random.next() * 10 ** random.between(-10, 25);
    case 3:
      return random.between(-1_000, 1_000_000);
    default:
      return drawText(random);
  }
}

function drawText(random: Random): string {
  if (random.chance(0.6)) return random.pick(TEXTS);
  let text = "";
  for (let left = random.between(0, 8); left > 0; left--) text += random.pick(TEXTS).slice(0, 2);
  return text;
}

function drawArray(random: Random, rates: OddValueRates, depth: number): unknown[] {
  return Array.from({ length: random.between(0, 4) }, () => drawValue(random, rates, depth + 1));
}

function drawObject(random: Random, rates: OddValueRates, depth: number): object {
  const object = random.chance(0.1) ? Object.create(null) : {};
  const count = random.chance(0.01) ? random.between(30, 40) : random.between(0, 5);
  for (let i = 0; i < count; i++) {
    const value = drawValue(random, rates, depth + 1);
    // Not an assignment, which would set the prototype for `__proto__`.
    const kind = { value, enumerable: true, writable: true, configurable: true };
    Object.defineProperty(object, drawText(random), kind);
  }
  return object;
}

function drawOdd(random: Random, rates: OddValueRates, depth: number): unknown {
  const inner = () => (depth > 5 ? null : drawValue(random, rates, depth + 1));
  const kinds: (() => unknown)[] = [
    () => undefined,
    () => random.pick([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]),
    () => 12n,
    () => () => 1,
    () => Symbol("s"),
    () => random.pick(LONE_SURROGATES),
    () => ({ [random.pick(LONE_SURROGATES)]: inner() }),
    () => new Date(random.pick([0, 1_700_000_000_000, Number.NaN])),
    () => new Map([[inner(), inner()]]),
    () => new Set([inner()]),
    () => Uint8Array.from([1, 2, 255]),
    () => new Money(),
    () => Object.assign(new Error("odd"), { code: "E_ODD" }),
    () => ({ [Symbol("s")]: inner() }),
    () => Object.assign([inner()], { note: inner() }),
    // biome-ignore lint/suspicious/noSparseArray: an array with a hole is one of the odd values.
    () => [1, , inner()],
    () => ({ toJSON: () => "other", a: inner() }),
    () => ({ toJSON: "text", a: inner() }),
    () => Object.defineProperty({ a: inner() }, "hidden", { value: 1, enumerable: false }),
    () => {
      const value = inner();
      return Object.defineProperty({}, "read", { get: () => value, enumerable: true });
    },
    () => Object.create({ inherited: 1 }),
    () => new (class extends Array {})(),
    () => new Object("boxed"),
  ];
  return random.pick(kinds)();
}
