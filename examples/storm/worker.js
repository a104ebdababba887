/**
 * One process of the shop. It has a guard of its own on the store that all share; the provider and the ledger are in the
 * parent. It knows nothing of the faults that are waiting for it: the parent kills and stops it from outside.
 */
import { createGuard } from "nevertwice";
import { openStore } from "nevertwice/stores/open";
import { openChannel } from "./channel.js";

/** @typedef {{ id: string, amount: number }} Order */

const [by = "nobody", url = "memory:", namespace = "shop"] = process.argv.slice(2);
const guard = createGuard({ store: await openStore(url), namespace });
await guard.ready();
// What the parent has asked until now is waiting for this.
const channel = openChannel(process);

/** Many callers at once, as after a double-click, a retry and a redelivery; answers what became of each. */
channel.answer("charge", ({ order, callers, policy }) => {
  const request = { operation: "charge", key: order.id, fingerprint: { amount: order.amount }, ...policy };
  return Promise.all(
    Array.from({ length: callers }, () => guard.tryRun(request, (attempt) => charge(order, attempt))),
  );
});

channel.answer("ready", () => true);

// Without its parent there is no provider: nothing is left to do.
channel.onGone(() => process.exit());

/**
 * @param {Order} order
 * @param {import("nevertwice").Attempt} attempt
 */
async function charge(order, attempt) {
  const { fence, number } = attempt;
  // The same in every process and on every attempt, so that the provider recognises the second one.
  const key = attempt.deriveKey("provider");
  await channel.ask("ledger.post", { order: order.id, fence, number, by, text: "charging" });
  const receipt = await channel.ask("provider.charge", { key, order: order.id, amount: order.amount, by });
  await channel.ask("ledger.post", { order: order.id, fence, number, by, text: `charged, ${receipt}` });
  return { receipt, by, number };
}
