/** Starts one run in its own process. */
import { fork } from "node:child_process";

/**
 * The script is forked with the plan as its argument and sends one message back. Rejects if it does not, or fails after.
 *
 * @param {string} script
 * @param {{ readonly library: string, readonly [more: string]: unknown }} plan
 * @returns {Promise<unknown>}
 */
export function runForked(script, plan) {
  const child = fork(script, [JSON.stringify(plan)], {
    execArgv: ["--expose-gc"],
    serialization: "advanced",
  });
  return new Promise((resolve, reject) => {
    /** @type {unknown} */
    let run;
    child.once("message", (message) => {
      run = message;
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0 && run !== undefined) resolve(run);
      else reject(new Error(`${plan.library} did not do its job (exit code ${code}); it says why above`));
    });
  });
}
