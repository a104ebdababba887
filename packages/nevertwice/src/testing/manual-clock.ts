/** A clock that moves only when a test moves it, so that a lease of thirty seconds ends at once. */
import type { Clock } from "../core/clock.ts";

/** A clock that moves only when it is told to. */
export interface ManualClock extends Clock {
  /** Moves the clock by `ms`. A negative number moves it back, as happens on servers. */
  advance(ms: number): void;
}

/** 2026-01-01T00:00:00Z: a time like the ones that stores see, and the same in every run. */
const START_MS = 1_767_225_600_000;

/**
 * Creates a clock that moves only when it is told to. Throws a TypeError if a time is not a finite number: a clock at NaN would never end a lease.
 * @example
 * ```ts
 * import { memoryStore } from "nevertwice/stores/memory";
 * import { manualClock } from "nevertwice/testing";
 *
 * const clock = manualClock();
 * const store = memoryStore({ clock });
 * clock.advance(30_000); // every lease of 30 s has ended
 * await store.close();
 * ```
 */
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
