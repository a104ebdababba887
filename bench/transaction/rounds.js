/** Runs the transactions of each library, each run in its own process, and compares their numbers. */
import { summarise } from "../report.js";
import { runForked } from "../run.js";
import { transaction } from "../suites/transaction.js";
import { takeTurns } from "../turns.js";

/** @typedef {{ title: string, summaries: readonly import("../report.js").Summary[] }} Row in the order of the libraries */

const PHASES = { first: "first call", again: "duplicate" };

/**
 * Rejects if a check of a library fails.
 *
 * @param {unknown} _table there is one
 * @param {{ size: import("../suites/transaction.js").Size, urls: import("../servers.js").Urls }} conditions
 * @returns {Promise<readonly Row[]>}
 */
export async function compareTransactions(_table, { size, urls }) {
  const { libraries } = transaction;
  const runs = await takeTurns(libraries, size.runs, ({ file }) =>
    runForked("transaction/measure.js", { ...size, url: urls.postgres, library: file }),
  );
  return Object.entries(PHASES).map(([phase, title]) => ({
    title,
    summaries: runs.map((all) => summarise(all.map(({ perSecond }) => perSecond[phase] ?? Number.NaN))),
  }));
}
