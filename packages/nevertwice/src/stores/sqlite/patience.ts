/** Waiting for a lock in a thread that may block. */
import { isBusy } from "./failures.ts";

/** Less than the engine waits for a call by default, so that it is told why. */
const PATIENCE_MS = 4_000;

const PAUSE_MS = 1;

/**
 * Tries again every millisecond while the lock is another's. SQLite's own waiting comes back after longer and longer
 * pauses, and between two commits of a busy neighbour the lock is free for less than a millisecond: it would miss most.
 */
export function patiently<Result>(attempt: () => Result): Result {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
  }
}
