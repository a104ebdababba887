/** Durations as other languages read them. */
import { expect, it } from "vitest";
import { isoDuration } from "../../src/http/iso-duration.ts";

it.each([
  [0, "PT0S"],
  [1, "PT0.001S"],
  [1_500, "PT1.5S"],
  [30_000, "PT30S"],
  [900_000, "PT15M"],
  [3_600_000, "PT1H"],
  [86_400_000, "P1D"],
  [90_061_000, "P1DT1H1M1S"],
  [2_592_000_000, "P30D"],
])("writes %i ms as %s", (ms, expected) => {
  expect(isoDuration(ms)).toBe(expected);
});
