/** An order as a saga: reserve, charge, ship. A refused order is undone once, an outage undoes nothing, a stuck refund is parked. */
import assert from "node:assert/strict";
import { createGuard } from "nevertwice";
import { saga } from "nevertwice/saga";
import { memoryStore } from "nevertwice/stores/memory";
import { faultyStore } from "nevertwice/testing";

const store = faultyStore(memoryStore());
const guard = createGuard({ store, namespace: "shop", storeTimeoutMs: 200, leaseMs: 500 });

/** @type {string[]} */
let effects = [];
/** @type {Set<string>} */
const charges = new Set();
let isWarehouseOpen = true;
let isBankOpen = true;
let losesStore = false;

const steps = [
  {
    name: "reserve",
    run: async () => void effects.push("reserve"),
    undo: async () => void effects.push("undo reserve"),
  },
  {
    name: "charge",
    /** @param {import("nevertwice/saga").RunContext} context */
    async run({ deriveKey }) {
      // The bank recognises the key of a charge that is tried again.
      if (!charges.has(deriveKey())) effects.push("charge");
      charges.add(deriveKey());
      if (losesStore) store.setRates({ refuse: 1 });
      return { idempotencyKey: deriveKey() };
    },
    async undo() {
      if (!isBankOpen) throw new Error("the bank is closed");
      effects.push("undo charge");
    },
  },
  {
    name: "ship",
    /** @param {import("nevertwice/saga").RunContext} context */
    async run({ notDone }) {
      if (!isWarehouseOpen) throw notDone(new Error("the warehouse is closed"));
      effects.push("ship");
    },
    undo: async () => void effects.push("undo ship"),
  },
];

/** @param {string} key */
const order = (key) => saga(guard, { operation: "order", key, undoRetry: { max: 0 } }, steps);

assert.equal((await order("order-1")).status, "done");
console.log(`shipped: ${effects.join(", ")}`);

effects = [];
isWarehouseOpen = false;
assert.equal((await order("order-2")).status, "undone");
console.log(`refused: ${effects.join(", ")}`);

// The decision is recorded: that the warehouse is open now changes nothing.
isWarehouseOpen = true;
assert.equal((await order("order-2")).status, "undone");
console.log(`run again: ${effects.length} effects, as before`);

// The store fails after the charge. Whether the charge was recorded is unknown, so nothing is undone.
effects = [];
losesStore = true;
assert.equal((await order("order-3")).status, "lease-lost");
console.log(`an outage: ${effects.join(", ")}, and nothing is undone`);
losesStore = false;
store.setRates({});
assert.equal((await order("order-3")).status, "done");
console.log(`come again: ${effects.join(", ")}`);

// A refund that keeps failing waits for an operator, who lets the saga go on.
effects = [];
isWarehouseOpen = false;
isBankOpen = false;
const parked = await order("order-4");
assert.ok(parked.status === "parked");
console.log(`parked: the undo of ${parked.step} says: ${/** @type {Error} */ (parked.error).message}`);
isBankOpen = true;
await guard.resolve({ operation: "order", key: "order-4", fence: parked.fence }, { status: "not-done" });
assert.equal((await order("order-4")).status, "undone");
console.log(`resolved: ${effects.join(", ")}`);

await guard.close();
