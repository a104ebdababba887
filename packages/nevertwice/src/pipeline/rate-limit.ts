/** Limits how many tries start within any span of `perMs`. A try beyond the limit waits. */
import type { Timer } from "../core/clock.ts";
import type { Rate } from "./model.ts";

export interface RateLimit {
  /** Reserves the next start, and returns how long to wait for it. */
  take(): number;
}

/** Stores the last `limit` start times, so that no span of `perMs`, wherever it begins, has more starts. */
export function createRateLimit(timer: Timer, { limit, perMs }: Rate): RateLimit {
  const starts: number[] = [];
  let oldest = 0;
  return {
    take() {
      const now = timer.now();
      const isFull = starts.length === limit;
      const at = isFull ? Math.max(now, (starts[oldest] as number) + perMs) : now;
      starts[isFull ? oldest : starts.length] = at;
      if (isFull) oldest = (oldest + 1) % limit;
      return at - now;
    },
  };
}
