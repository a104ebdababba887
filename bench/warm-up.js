/** Repeats a warm-up until it no longer makes the code faster. */

/** How much the processor time of an operation may differ between two warm-ups that agree. */
const TOLERANCE = 0.1;
/** The last measured run then still begins with code that was compiled, if not with code that has settled. */
export const MAX_WARM_UPS = 8;

/**
 * @param {number} before
 * @param {number} now
 */
export function agree(before, now) {
  return Math.abs(before - now) <= TOLERANCE * Math.max(before, now);
}

/**
 * Returns how often it ran: at most `max` times.
 *
 * @param {() => Promise<number>} run that returns the processor time of an operation
 */
export async function warmUp(run, max = MAX_WARM_UPS) {
  let before = await run();
  for (let times = 2; times <= max; times++) {
    const now = await run();
    if (agree(before, now)) return times;
    before = now;
  }
  return max;
}
