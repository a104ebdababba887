/** Duplicate Prevention by itself: what is seen, until when, and that nothing but time changes it. */
import { expect, test } from "vitest";
import { check, record } from "../../src/reservations/duplicate-prevention.ts";

const NOW = 1_000_000;
const WINDOW_MS = 60;

test("what nobody recorded is not seen", () => {
  expect(check(undefined, NOW)).toBe("not-seen");
});

test("what was recorded is seen within its window, and at the window's end no more", () => {
  const recorded = record(undefined, NOW, WINDOW_MS);
  expect(recorded).toEqual({ recordedAt: NOW, windowEndsAt: NOW + WINDOW_MS });
  expect([0, 1, WINDOW_MS - 1].map((ms) => check(recorded, NOW + ms))).toEqual(["seen", "seen", "seen"]);
  expect([WINDOW_MS, WINDOW_MS + 1].map((ms) => check(recorded, NOW + ms))).toEqual(["not-seen", "not-seen"]);
});

test("a second recording within the window changes nothing, whatever window it asks for", () => {
  const first = record(undefined, NOW, WINDOW_MS);
  for (const windowMs of [1, WINDOW_MS, 10 * WINDOW_MS])
    expect(record(first, NOW + WINDOW_MS - 1, windowMs)).toBe(first);
});

test("past its window a key is recorded anew, with a window of its own", () => {
  const first = record(undefined, NOW, WINDOW_MS);
  const second = record(first, NOW + WINDOW_MS, 5);
  expect(second).toEqual({ recordedAt: NOW + WINDOW_MS, windowEndsAt: NOW + WINDOW_MS + 5 });
});

test("asking changes nothing, and gets the same answer at the same time", () => {
  const recorded = Object.freeze(record(undefined, NOW, WINDOW_MS));
  const answers = Array.from({ length: 5 }, () => check(recorded, NOW + 1));
  expect(new Set(answers)).toEqual(new Set(["seen"]));
});
