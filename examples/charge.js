/** The smallest example: a charge that runs once, is replayed, refuses a reused key, and may fail and be tried again. */
import assert from "node:assert/strict";
import { createGuard, isNevertwiceError } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
let charges = 0;

/**
 * @param {string} order
 * @param {number} amount
 */
function charge(order, amount) {
  const request = { operation: "charge", key: order, fingerprint: { amount } };
  return guard.run(request, async () => ({ receipt: `receipt-${++charges}`, amount }));
}

// The first call does the work; the second is answered with what the first one kept.
const receipt = await charge("order-1", 4_200);
const again = await charge("order-1", 4_200);
assert.deepEqual(again, receipt);
assert.equal(charges, 1);
console.log(`ran once: ${receipt.receipt}, and the retry got ${again.receipt}`);

// The same key for another amount is a mistake of the caller, never a second charge and never the wrong receipt.
await assert.rejects(charge("order-1", 9_900), (error) => isNevertwiceError(error, "conflict"));
assert.equal(charges, 1);
console.log("conflict: order-1 was charged with another amount before");

// Work that fails is not done: its error goes to the caller, and the next call tries again.
const declined = new Error("card declined");
const failing = guard.run({ operation: "charge", key: "order-2" }, async () => {
  throw declined;
});
await assert.rejects(failing, declined);
const second = await charge("order-2", 1_000);
assert.equal(second.receipt, "receipt-2");
console.log(`failed, then ran: ${second.receipt}`);

// Where an exception is in the way, tryRun says what became of the call.
const result = await guard.tryRun({ operation: "charge", key: "order-2" }, async () => ++charges);
assert.equal(result.status, "replayed");
assert.equal(charges, 2);
console.log(`tryRun: ${result.status}`);

await guard.close();
