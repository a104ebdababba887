/** An order as a saga: reserve, charge, ship. A refused order is undone once, and an outage undoes nothing. */
import assert from "node:assert/strict";
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { faultyStore } from "nevertwice/testing";
import { NotYet, Refused, runSaga } from "./saga/saga.js";

const store = faultyStore(memoryStore());
const guard = createGuard({ store, namespace: "shop", completeWaitMs: 100 });
const steps = ["reserve", "charge", "ship"];

/** @type {string[]} */
let effects = [];
let isWarehouseOpen = true;

/** @param {string} operation */
async function act(operation) {
  if (operation === "ship" && !isWarehouseOpen) throw new Refused("the warehouse is closed");
  effects.push(operation);
}

/** @param {string} key */
const run = (key) => runSaga(guard, { key, steps, act });

assert.equal(await run("order-1"), "done");
console.log(`shipped: ${effects.join(", ")}`);

effects = [];
isWarehouseOpen = false;
assert.equal(await run("order-2"), "undone");
console.log(`refused: ${effects.join(", ")}`);

// The decision is recorded: that the warehouse is open now changes nothing.
isWarehouseOpen = true;
assert.equal(await run("order-2"), "undone");
console.log(`run again: ${effects.length} effects, as before`);

// The store fails after the charge. Whether the charge was recorded is unknown, so nothing is undone.
effects = [];
const outage = runSaga(guard, {
  key: "order-3",
  steps,
  async act(operation) {
    await act(operation);
    if (operation === "charge") store.setRates({ refuse: 1 });
  },
});
await assert.rejects(outage, NotYet);
console.log(`an outage: ${effects.join(", ")}, and nothing is undone`);
store.setRates({});
assert.equal(await run("order-3"), "done");
console.log(`come again: ${effects.join(", ")}`);

await guard.close();
