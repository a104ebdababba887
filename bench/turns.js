/** Measures the sides of a comparison in turn. */

/**
 * Each round begins with another side, so that other load on the computer slows all of them alike.
 *
 * @template Side
 * @template Run
 * @param {readonly Side[]} sides
 * @param {number} rounds
 * @param {(side: Side) => Promise<Run>} measure
 * @returns {Promise<readonly (readonly Run[])[]>} the runs of each side, in the order of the sides
 */
export async function takeTurns(sides, rounds, measure) {
  const runs = sides.map(() => /** @type {Run[]} */ ([]));
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < sides.length; turn++) {
      const who = (turn + round) % sides.length;
      runs[who]?.push(await measure(/** @type {Side} */ (sides[who])));
    }
    console.error(`run ${round + 1} of ${rounds} done`);
  }
  return runs;
}
