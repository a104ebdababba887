/** Compares one thing with a guard and without one, each run in its own process. */
import { runForked } from "./forked.js";
import { ratioToBest, summarise } from "./report.js";

/** @typedef {{ perSecond: Record<string, number> }} Run by phase */
/** @typedef {{ title: string, ours: import("./report.js").Summary, bare: import("./report.js").Summary, ratio: number }} Row */

/**
 * Rejects if a check of one of the two fails.
 *
 * @param {string} script that measures one run
 * @param {readonly { name: string, title: string }[]} phases
 * @param {{ store: string, ours: { file: string }, bare: { file: string } }} libraries
 * @param {{ size: { runs: number }, [more: string]: unknown }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export async function comparePaired(script, phases, { store, ours, bare }, { size, ...more }, onRound) {
  /** @type {{ ours: Run[], bare: Run[] }} */
  const runs = { ours: [], bare: [] };
  /**
   * @param {{ file: string }} library
   * @param {Run[]} to
   */
  const measure = async ({ file }, to) => {
    to.push(/** @type {Run} */ (await runForked(script, { ...size, ...more, store, library: file })));
  };
  for (let round = 0; round < size.runs; round++) {
    // They take turns, each round in another order, so that other load on the computer slows both alike.
    const turns = [() => measure(ours, runs.ours), () => measure(bare, runs.bare)];
    for (const turn of round % 2 === 0 ? turns : turns.reverse()) await turn();
    onRound(round + 1);
  }
  return phases.map(({ name, title }) => {
    /** @param {readonly Run[]} of */
    const summaryOf = (of) => summarise(of.map(({ perSecond }) => perSecond[name] ?? Number.NaN));
    const [mine, theirs] = [summaryOf(runs.ours), summaryOf(runs.bare)];
    return { title, ours: mine, bare: theirs, ratio: ratioToBest(mine, [theirs]) };
  });
}
