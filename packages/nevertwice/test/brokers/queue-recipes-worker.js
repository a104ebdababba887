/**
 * A worker of examples/recipes/queues in a process of its own: `node queue-recipes-worker.js <recipe> <url> <ledger> <kill>`.
 * The ledger gets a line for each charge that reaches the payment provider. The process kills itself before the charge, after
 * the charge, or once the guard has kept the outcome and the queue does not know; or `never`.
 */
import { appendFileSync } from "node:fs";
import { createGuard } from "../../dist/index.js";
import { openStore } from "../../dist/stores/open.js";

const [recipe = "", url = "", ledger = "", kill] = process.argv.slice(2);

/** @param {string} moment */
function dieAt(moment) {
  if (kill === moment) process.kill(process.pid, "SIGKILL");
}

/** Short, so that a test need not wait long for a killed worker's claim to lapse and its job to stall. */
const SETTINGS = {
  "bee-queue": { stallInterval: 1_000 },
  bullmq: { lockDuration: 2_000, stalledInterval: 1_000, maxStalledCount: 100 },
};

const guard = createGuard({
  store: await openStore(url),
  leaseMs: 2_000,
  observer: ({ kind }) => kind === "completed" && dieAt("kept"),
});
const { startBilling } = await import(`../../../../examples/recipes/queues/${recipe}.js`);
await startBilling(
  url,
  guard,
  async (/** @type {{ order: string }} */ { order }, /** @type {string} */ idempotencyKey) => {
    dieAt("before");
    appendFileSync(ledger, `${order} ${idempotencyKey}\n`);
    dieAt("after");
  },
  SETTINGS[/** @type {keyof typeof SETTINGS} */ (recipe)],
);
