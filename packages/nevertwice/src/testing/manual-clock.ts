/** A clock that stands still until it is told to move: what makes a lease of thirty seconds end in no time. */
import type { Clock } from "../core/clock.ts";

export interface ManualClock extends Clock {
  /** Moves the clock by `ms`. A negative number turns it back, as clocks of servers now and then are. */
  advance(ms: number): void;
}

/** 2026-01-01T00:00:00Z: a time like the ones that stores see, and the same in every run. */
const START_MS = 1_767_225_600_000;

/** Fails with a TypeError on what is no finite number of milliseconds: a clock at NaN would never end a lease. */
export function manualClock(startMs: number = START_MS): ManualClock {
  let now = milliseconds("startMs", startMs);
  return {
    now: () => now,
    advance(ms) {
      now += milliseconds("ms", ms);
    },
  };
}

function milliseconds(name: string, value: number): number {
  if (Number.isFinite(value)) return value;
  throw new TypeError(`${name} must be a finite number of milliseconds; it is ${String(value)}.`);
}
