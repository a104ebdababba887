/** Runs the transactions of each library, each run in its own process, and compares their numbers. */
import { fileURLToPath } from "node:url";
import { runForked } from "../forked.js";
import { summarise } from "../report.js";
import { transaction } from "../suites/transaction.js";

/** @typedef {{ perSecond: Record<string, number> }} Run by phase */
/** @typedef {{ title: string, summaries: readonly import("../report.js").Summary[] }} Row in the order of the libraries */

const MEASURE = fileURLToPath(new URL("measure.js", import.meta.url));
const PHASES = { first: "first call", again: "duplicate" };

/**
 * Rejects if a check of a library fails.
 *
 * @param {{ size: import("../suites/transaction.js").Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export async function compareTransactions({ size, url }, onRound) {
  const { libraries } = transaction;
  /** @type {Run[][]} */
  const runs = libraries.map(() => []);
  for (let round = 0; round < size.runs; round++) {
    // They take turns, each round in another order, so that other load on the computer slows all of them alike.
    const turns = libraries.map(({ file }, index) => ({ file, to: runs[index] }));
    for (const { file, to } of round % 2 === 0 ? turns : turns.reverse())
      to?.push(/** @type {Run} */ (await runForked(MEASURE, { ...size, url, library: file })));
    onRound(round + 1);
  }
  return Object.entries(PHASES).map(([phase, title]) => ({
    title,
    summaries: runs.map((all) => summarise(all.map(({ perSecond }) => perSecond[phase] ?? Number.NaN))),
  }));
}
