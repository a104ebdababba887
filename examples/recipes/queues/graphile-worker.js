/** Graphile Worker: a worker that charges each order once. */
import { run } from "graphile-worker";
import { consumer } from "nevertwice/events";

/** @typedef {{ order: string, cents: number }} Order */

/**
 * @param {string} url of the Postgres database
 * @param {import("nevertwice").Guard} guard
 * @param {(order: Order, idempotencyKey: string) => Promise<unknown>} charge
 */
export function startBilling(url, guard, charge) {
  const billing = consumer(guard, {
    name: "billing",
    // A producer that adds an order again creates a job with another id.
    key: (/** @type {Order} */ { order }) => order,
    work: (order, attempt) => charge(order, attempt.deriveKey("psp")),
  });
  return run({
    connectionString: url,
    taskList: {
      async charge(payload) {
        const delivery = await billing.handle(/** @type {Order} */ (payload));
        // Graphile Worker runs a job again that throws.
        if (delivery.verdict !== "acknowledge") throw new Error(`not done: ${delivery.status}`);
      },
    },
  });
}
