/** The two ports of time. A store reads a `Clock`; the engine only ever measures durations, on a `Timer`. */

/** Wall-clock milliseconds since the epoch. It may jump, so a stored deadline is only compared with the clock that set it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
}

/** Monotonic milliseconds from an arbitrary start, and delayed actions. */
export interface Timer {
  now(): number;
  /** Runs `action` once after `ms`; the returned function cancels it. A `background` timer does not keep the process alive. */
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

/**
 * An action for a timer that does not keep its target alive. A target that is dropped without being closed can be
 * collected, and its timer then does nothing. This is a separate function because closures of one function share their
 * variables, and so would keep the target alive.
 */
export function weakly(target: { run(): unknown }): () => void {
  const held = new WeakRef(target);
  return () => void held.deref()?.run();
}
