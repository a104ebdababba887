/** The two ports of time. A store reads a `Clock`; the engine only ever measures durations, on a `Timer`. */

/** Wall-clock milliseconds since the epoch. It may jump; whoever stores a deadline compares it with the same clock. */
export interface Clock {
  now(): number;
}

/** Monotonic milliseconds from an arbitrary start, and something to be done later. */
export interface Timer {
  now(): number;
  /** Runs `action` once after `ms`; the answer cancels it. `background` timers do not keep a process alive. */
  after(ms: number, action: () => void, background?: boolean): () => void;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Longer delays overflow the platform's timers and fire at once; nothing in the engine needs to sleep longer. */
const MAX_DELAY_MS = 2_147_483_647;

export const systemTimer: Timer = {
  now: () => performance.now(),
  after(ms, action, background = false) {
    const handle = setTimeout(action, Math.min(ms, MAX_DELAY_MS));
    if (background) handle.unref?.();
    return () => clearTimeout(handle);
  },
};
