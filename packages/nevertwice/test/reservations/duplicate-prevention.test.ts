/** Duplicate Prevention alone: which keys are seen, until when, and that only time changes it. */
import { expect, test } from "vitest";
import { check, record } from "../../src/reservations/duplicate-prevention.ts";

const NOW = 1_000_000;
const WINDOW_MS = 60;

test("a key that was never recorded is not seen", () => {
  expect(check(undefined, NOW)).toBe("not-seen");
});

test("a recorded key is seen within its window, and not at the end of the window", () => {
  const recorded = record(undefined, NOW, WINDOW_MS);
  expect(recorded).toEqual({ recordedAt: NOW, windowEndsAt: NOW + WINDOW_MS });
  expect([0, 1, WINDOW_MS - 1].map((ms) => check(recorded, NOW + ms))).toEqual(["seen", "seen", "seen"]);
  expect([WINDOW_MS, WINDOW_MS + 1].map((ms) => check(recorded, NOW + ms))).toEqual(["not-seen", "not-seen"]);
});

test("a second recording within the window changes nothing, even with another window", () => {
  const first = record(undefined, NOW, WINDOW_MS);
  for (const windowMs of [1, WINDOW_MS, 10 * WINDOW_MS])
    expect(record(first, NOW + WINDOW_MS - 1, windowMs)).toBe(first);
});

test("after its window, a key is recorded again with a new window", () => {
  const first = record(undefined, NOW, WINDOW_MS);
  const second = record(first, NOW + WINDOW_MS, 5);
  expect(second).toEqual({ recordedAt: NOW + WINDOW_MS, windowEndsAt: NOW + WINDOW_MS + 5 });
});

test("a check changes nothing, and gives the same result at the same time", () => {
  const recorded = Object.freeze(record(undefined, NOW, WINDOW_MS));
  const answers = Array.from({ length: 5 }, () => check(recorded, NOW + 1));
  expect(new Set(answers)).toEqual(new Set(["seen"]));
});
