/** Tests how long to wait before a retry: the three strategies, the cap, and the jitter. */
import { expect, test } from "vitest";
import { backoffMs, pause, toBackoff } from "../../src/core/backoff.ts";
import { systemTimer } from "../../src/core/clock.ts";

const waits = (options: Parameters<typeof toBackoff>[0], random = 0): number[] =>
  [1, 2, 3, 4, 5].map((retry) => backoffMs(toBackoff(options), retry, random));

test("a constant delay stays the same, a linear one grows by its base, an exponential one doubles", () => {
  expect(waits({ strategy: "constant", baseMs: 100 })).toEqual([100, 100, 100, 100, 100]);
  expect(waits({ strategy: "linear", baseMs: 100 })).toEqual([100, 200, 300, 400, 500]);
  expect(waits({ strategy: "exponential", baseMs: 100 })).toEqual([100, 200, 400, 800, 1_600]);
});

test("no delay is longer than the cap, however many attempts were made", () => {
  expect(waits({ strategy: "exponential", baseMs: 100, capMs: 250 })).toEqual([100, 200, 250, 250, 250]);
  expect(backoffMs(toBackoff({}), 5_000, 0)).toBe(30_000);
});

test("jitter shortens a delay by no more than its share", () => {
  expect(waits({ strategy: "constant", baseMs: 100, jitter: 0.5 }, 1)).toEqual([50, 50, 50, 50, 50]);
  expect(waits({ strategy: "constant", baseMs: 100, jitter: 0 }, 1)).toEqual([100, 100, 100, 100, 100]);
});

test.each([
  [{ strategy: "fibonacci" }, 'strategy is "fibonacci"'],
  [{ max: -1 }, "max is -1"],
  [{ jitter: 2 }, "jitter is 2; it must be from 0 to 1"],
  [{ bas: 5 }, 'there is no option called "bas"'],
])("refuses %j", (options, message) => {
  expect(() => toBackoff(options as never)).toThrow(message);
});

test("a pause ends early when its signal fires, and at once if the signal has already fired", async () => {
  const controller = new AbortController();
  const paused = pause(systemTimer, 3_600_000, controller.signal);
  controller.abort();
  await paused;
  await pause(systemTimer, 3_600_000, controller.signal);
});
