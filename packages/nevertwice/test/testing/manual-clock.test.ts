import { expect, test } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { manualClock } from "../../src/testing/index.ts";

test("stands still until it is moved", () => {
  const clock: Clock = manualClock(1_000);
  expect(clock.now()).toBe(1_000);
  expect(clock.now()).toBe(1_000);
});

test("starts at the same time in every run", () => {
  expect(manualClock().now()).toBe(Date.UTC(2026, 0, 1));
});

test("goes forward and back", () => {
  const { now, advance } = manualClock(1_000);
  advance(500);
  expect(now()).toBe(1_500);
  advance(-2_000);
  expect(now()).toBe(-500);
});

test("refuses what is no finite number of milliseconds, and stays where it was", () => {
  const clock = manualClock(1_000);
  expect(() => clock.advance(Number.NaN)).toThrow("ms must be a finite number of milliseconds; it is NaN.");
  expect(() => manualClock(Number.POSITIVE_INFINITY)).toThrow("startMs must be a finite number");
  expect(clock.now()).toBe(1_000);
});
