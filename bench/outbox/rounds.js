/** Runs each scenario of the outbox on one database, each run in its own process. */
import { summarise } from "../report.js";
import { runForked } from "../run.js";
import { outbox } from "../suites/outbox.js";
import { takeTurns } from "../turns.js";

/** @typedef {{ title: string, summary: import("../report.js").Summary, relayMicros: number, serverMicros: number | undefined }} Row */

/** @typedef {import("../run.js").Run & { relayMicros: number, serverMicros?: number }} OutboxRun */

/**
 * Rejects if a check fails.
 *
 * @param {{ database: string }} table
 * @param {{ size: import("../suites/outbox.js").Size, urls: import("../servers.js").Urls }} conditions
 * @returns {Promise<readonly Row[]>}
 */
export async function compareOutbox({ database }, { size, urls }) {
  const runs = await takeTurns(outbox.scenarios, size.runs, async (scenario) => {
    const plan = { ...size, database, url: urls[database], scenario, library: `outbox on ${database}` };
    return /** @type {OutboxRun} */ (await runForked("outbox/measure.js", plan));
  });
  return outbox.scenarios.map(({ title }, index) => {
    const all = runs[index] ?? [];
    return {
      title,
      summary: summarise(all.map(({ perSecond }) => perSecond.messages ?? Number.NaN)),
      relayMicros: median(all.map(({ relayMicros }) => relayMicros)),
      serverMicros:
        all[0]?.serverMicros === undefined
          ? undefined
          : median(all.map(({ serverMicros }) => serverMicros ?? Number.NaN)),
    };
  });
}

/** @param {readonly number[]} numbers */
function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
