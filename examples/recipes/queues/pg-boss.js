/** pg-boss: a worker that charges each order once. */
import { consumer } from "nevertwice/events";
import PgBoss from "pg-boss";

/** @typedef {{ order: string, cents: number }} Order */

/**
 * @param {string} url of the Postgres database
 * @param {import("nevertwice").Guard} guard
 * @param {(order: Order, idempotencyKey: string) => Promise<unknown>} charge
 */
export async function startBilling(url, guard, charge) {
  const billing = consumer(guard, {
    name: "billing",
    // A producer that sends an order again creates a job with another id.
    key: (/** @type {PgBoss.Job<Order>} */ { data }) => data.order,
    work: ({ data }, attempt) => charge(data, attempt.deriveKey("psp")),
  });
  const boss = new PgBoss(url);
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue("orders");
  await boss.work("orders", async (jobs) => {
    for (const job of jobs) {
      const delivery = await billing.handle(job);
      // pg-boss runs a job again that throws.
      if (delivery.verdict !== "acknowledge") throw new Error(`not done: ${delivery.status}`);
    }
  });
  return boss;
}
