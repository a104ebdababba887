/** BullMQ: a worker that charges each order once. */
import { Worker } from "bullmq";
import { consumer } from "nevertwice/events";
import { bullmqProcessor } from "nevertwice/events/bullmq";

/** @typedef {{ order: string, cents: number }} Order */

/**
 * @param {string} url of the Redis server
 * @param {import("nevertwice").Guard} guard
 * @param {(order: Order, idempotencyKey: string) => Promise<unknown>} charge
 * @param {Partial<import("bullmq").WorkerOptions>} settings
 */
export async function startBilling(url, guard, charge, settings = {}) {
  const billing = consumer(guard, {
    name: "billing",
    // A producer that adds an order again creates a job with another id.
    key: (/** @type {import("bullmq").Job<Order>} */ { data }) => data.order,
    work: ({ data }, attempt) => charge(data, attempt.deriveKey("psp")),
  });
  const worker = new Worker("orders", bullmqProcessor(billing), { ...settings, connection: { url } });
  worker.on("error", console.error);
  await worker.waitUntilReady();
  return worker;
}
