/**
 * One process of the shop. It has a guard of its own; the store, the provider and the ledger are in the parent. It knows
 * nothing of the faults that are waiting for it: the parent kills and stops it from outside.
 */
import { createGuard } from "nevertwice";
import { openChannel } from "./channel.js";
import { ipcStore } from "./ipc-store.js";

/** @typedef {{ id: string, amount: number }} Order */

const by = process.argv[2] ?? "nobody";
const channel = openChannel(process);
const guard = createGuard({ store: ipcStore(channel), namespace: "shop" });

/** Many callers at once, as after a double-click, a retry and a redelivery; answers what became of each. */
channel.answer("charge", ({ order, callers, policy }) => {
  const request = { operation: "charge", key: order.id, fingerprint: { amount: order.amount }, ...policy };
  return Promise.all(
    Array.from({ length: callers }, () => guard.tryRun(request, (attempt) => charge(order, attempt))),
  );
});

channel.answer("ready", () => true);

// Without its parent it has no store: nothing is left to do.
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
