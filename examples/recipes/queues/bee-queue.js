/** Bee-Queue: a worker that charges each order once. */
import Queue from "bee-queue";
import { consumer } from "nevertwice/events";

/** @typedef {{ order: string, cents: number }} Order */

/**
 * @param {string} url of the Redis server
 * @param {import("nevertwice").Guard} guard
 * @param {(order: Order, idempotencyKey: string) => Promise<unknown>} charge
 * @param {import("bee-queue").QueueSettings} settings
 */
export async function startBilling(url, guard, charge, settings = {}) {
  const { stallInterval = 5_000 } = settings;
  const billing = consumer(guard, {
    name: "billing",
    // A producer that saves an order again creates a job with another id.
    key: (/** @type {Queue.Job<Order>} */ { data }) => data.order,
    work: ({ data }, attempt) => charge(data, attempt.deriveKey("psp")),
  });
  const queue = new Queue("orders", { activateDelayedJobs: true, ...settings, redis: { url } });
  queue.on("error", console.error);
  queue.process(async (/** @type {Queue.Job<Order>} */ job) => {
    const delivery = await billing.handle(job);
    // Bee-Queue runs a job again that throws, if the job has retries left.
    if (delivery.verdict !== "acknowledge") throw new Error(`not done: ${delivery.status}`);
  });
  // Without it, the jobs of a worker that was killed never come back.
  queue.checkStalledJobs(stallInterval, (error) => error && console.error(error));
  await queue.ready();
  return queue;
}
