/**
 * A process that runs sagas until each has ended, and may be killed at any time. With a `point` it kills itself there, the
 * first time that it reaches it.
 */
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard } from "../../../dist/index.js";
import { saga } from "../../../dist/saga/index.js";
import { open } from "./open.js";
import { sagaSteps } from "./saga-steps.js";

/**
 * @typedef {object} Options
 * @property {string} url of the store, whose tables exist
 * @property {string} namespace
 * @property {readonly SagaOrder[]} sagas which run at the same time
 * @property {number} steps how many steps each has
 * @property {number} leaseMs
 * @property {number} [effectMs] how long each effect takes
 * @property {string} [point] an effect (`run step 0`, `ran step 0`, `undo step 0`, `undid step 0`), or a call to the store and
 *   its answer (`keep step 0`, `kept step 0`, `complete`, `completed`)
 */

/**
 * @typedef {object} SagaOrder
 * @property {string} key
 * @property {string} notes the file of its ledger
 * @property {number} [failsAt] the step whose run fails
 * @property {number} [stuckAt] the step whose undo fails
 */

/** @type {Options} */
const { url, namespace, sagas, steps, leaseMs, effectMs = 0, point } = JSON.parse(process.argv[2] ?? "{}");

/** @param {string} reached */
function reach(reached) {
  if (reached === point) process.kill(process.pid, "SIGKILL");
}

const inner = await open(url, { migrate: false });
/** @type {typeof inner} */
const store = {
  ...inner,
  async keepStep(request) {
    reach(`keep ${request.name}`);
    const isKept = await inner.keepStep?.(request);
    reach(`kept ${request.name}`);
    return isKept ?? false;
  },
  async complete(request) {
    reach("complete");
    const isCompleted = await inner.complete(request);
    reach("completed");
    return isCompleted;
  },
};
const guard = createGuard({ store, namespace, leaseMs, waitMs: 30_000, purgeEveryMs: 0 });

/** @param {SagaOrder} order */
async function runToEnd({ key, notes, failsAt, stuckAt }) {
  const file = openSync(notes, "a");
  const subject = { operation: "order", key };
  const list = sagaSteps(steps, {
    write: (note) => void writeSync(file, `${JSON.stringify(note)}\n`),
    kept: async () => (await guard.read(subject))?.steps?.map(({ name }) => name) ?? [],
    fails: (direction, step) => step === `step ${direction === "run" ? failsAt : stuckAt}`,
    async reach(reached) {
      if (effectMs > 0) await sleep(Math.random() * effectMs);
      reach(reached);
    },
  });
  const request = { ...subject, undoRetry: { max: 0 } };
  for (;;) {
    const { status } = await saga(guard, request, list);
    if (status === "done" || status === "undone" || status === "parked") return status;
    await sleep(10);
  }
}

await guard.ready();
process.send?.({ kind: "begun" });
const ends = await Promise.all(sagas.map(runToEnd));
process.send?.({ kind: "ended", ends });
process.disconnect?.();
process.exit(0);
