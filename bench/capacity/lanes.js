/** Runs calls, a few at a time. */

/**
 * Calls `one` with 0 to `calls - 1`.
 *
 * @param {{ lanes: number, calls: number }} size
 * @param {(i: number) => Promise<unknown>} one
 */
export async function inLanes({ lanes, calls }, one) {
  let next = 0;
  const lane = async () => {
    while (next < calls) await one(next++);
  };
  await Promise.all(Array.from({ length: Math.min(lanes, calls) }, lane));
}
