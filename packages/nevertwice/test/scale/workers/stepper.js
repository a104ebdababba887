/**
 * A process that does the work of one key in steps, and may be killed at any time. It writes each step to a file before the
 * step does anything, so the file remains after a kill.
 */
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard, isNevertwiceError } from "../../../dist/index.js";
import { open } from "./open.js";

/**
 * @typedef {object} Options
 * @property {string} url of the store
 * @property {string} namespace
 * @property {string} key
 * @property {number} steps how many steps the work has
 * @property {number} leaseMs
 * @property {string} notes the file
 * @property {boolean} [hasNoSteps] a deliberate bug that the test must report: nothing is kept
 */

/** @typedef {[attempt: number, step: number]} StepNote a step begins */

/** @type {Options} */
const { url, namespace, key, steps, leaseMs, notes, hasNoSteps } = JSON.parse(process.argv[2] ?? "{}");
const file = openSync(notes, "a");
const guard = createGuard({ store: await open(url, { migrate: false }), namespace, leaseMs, waitMs: 30_000 });

/** @param {import("../../../src/core/attempt.ts").Attempt} attempt */
async function work({ number, step }) {
  const done = [];
  for (let index = 0; index < steps; index++) {
    const effect = async () => {
      writeSync(file, `${JSON.stringify([number, index])}\n`);
      process.send?.({ kind: "begun", step: index });
      await sleep(5);
      return number;
    };
    done.push(hasNoSteps ? await effect() : await step(`step ${index}`, effect));
  }
  return done;
}

/** On a busy machine a claim may be answered after its lease has ended. */
async function runUntilDone() {
  for (;;) {
    try {
      return await guard.run({ operation: "order", key }, work);
    } catch (error) {
      if (!isNevertwiceError(error) || !error.retryable) throw error;
    }
  }
}

await guard.ready();
process.send?.({ kind: "done", done: await runUntilDone() });
process.disconnect();
process.exit(0);
