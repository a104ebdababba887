/** Not more than so many starts within any such span of time: whoever comes too soon waits. */
import type { Timer } from "../core/clock.ts";
import type { Rate } from "./model.ts";

export interface Pace {
  /** Takes the next place, and answers how long it is until then. */
  take(): number;
}

/** Remembers when the last `limit` ones may start, so that no span, wherever it begins, has more. */
export function createPace(timer: Timer, { limit, perMs }: Rate): Pace {
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
