/** Tests durations as operators write them. Each number has a unit, and an ambiguous duration is refused. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { durationMs } from "../../src/core/duration.ts";

test.each([
  ["250ms", 250],
  ["30s", 30_000],
  ["15m", 900_000],
  ["24h", 86_400_000],
  ["30d", 2_592_000_000],
  ["1h30m", 5_400_000],
  ["1d2h3m4s5ms", 93_784_005],
  ["90m", 5_400_000],
  ["007s", 7_000],
  ["0s", 0],
])("%s is %d ms", (text, ms) => {
  expect(durationMs("NEVERTWICE_LEASE", text)).toBe(ms);
});

test.each([
  ["a number without a unit", "30"],
  ["nothing", ""],
  ["a unit without a number", "s"],
  ["a fraction", "1.5h"],
  ["a sign", "-30s"],
  ["an unknown unit", "2w"],
  ["a unit in capitals", "30S"],
  ["a space", "30 s"],
  ["a leading space", " 30s"],
  ["a trailing line break", "30s\n"],
  ["a unit twice", "5s5s"],
  ["a smaller unit first", "30m1h"],
  ["an ISO duration", "PT30S"],
  ["an exponent", "1e3s"],
  ["digits of another script", "٣٠s"],
])("refuses %s", (_, text) => {
  expect(() => durationMs("NEVERTWICE_LEASE", text)).toThrow(
    expect.objectContaining({
      code: "options-invalid",
      message: expect.stringContaining(
        `NEVERTWICE_LEASE is ${JSON.stringify(text)}; it must be whole numbers`,
      ),
    }),
  );
});

test("refuses more than a hundred years, however it is written", () => {
  expect(durationMs("x", "36525d")).toBe(3_155_760_000_000);
  for (const text of ["36526d", "36525d1ms", `${"9".repeat(20)}ms`, `${"9".repeat(400)}d`])
    expect(() => durationMs("NEVERTWICE_LEASE", text)).toThrow(/NEVERTWICE_LEASE in milliseconds is/);
});

test("adds up whole units", () => {
  const count = fc.nat({ max: 9_999 });
  fc.assert(
    fc.property(count, count, count, count, count, (d, h, m, s, ms) => {
      const sum = d * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1_000 + ms;
      return durationMs("x", `${d}d${h}h${m}m${s}s${ms}ms`) === sum;
    }),
  );
});

test("checks a long string of digits quickly", () => {
  expect(() => durationMs("x", `${"1".repeat(100_000)}x`)).toThrow(/must be whole numbers/);
});
