/**
 * Runs one library once, in its own process: code that the JIT compiled for another library or setting runs at another
 * speed. The process is forked with a plan as its argument and sends one message back.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * What one run measured: operations per second by phase, and what the database kept for each of them.
 *
 * @typedef {object} Run
 * @property {Record<string, number>} perSecond
 * @property {number} [bytes]
 * @property {Record<string, import("./costs.js").Costs>} costs by phase
 * @property {number} warmUps how often the warm-up was repeated
 * @property {import("./profile.js").Profile[]} [profiles] of the phase that the plan asked for
 */

/**
 * Rejects if the process sends nothing, or fails afterwards.
 *
 * @param {string} script in the folder of the benchmark
 * @param {{ readonly library: string, readonly [more: string]: unknown }} plan
 * @param {string | URL} [home] that folder: of this revision, or of another one
 * @returns {Promise<Run>}
 */
export function runForked(script, plan, home = new URL(".", import.meta.url)) {
  const child = fork(fileURLToPath(new URL(script, home)), [JSON.stringify(plan)], {
    execArgv: ["--expose-gc"],
    serialization: "advanced",
  });
  return new Promise((resolve, reject) => {
    /** @type {Run | undefined} */
    let run;
    child.once("message", (message) => {
      run = /** @type {Run} */ (message);
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0 && run !== undefined) resolve(run);
      else
        reject(new Error(`${plan.library} failed a check (exit code ${code}); its error is printed above`));
    });
  });
}
