/** Functions and methods that guard themselves: the key comes from their arguments, and callers need not know of it. */
import assert from "node:assert/strict";
import { createGuard, idempotent } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
/** @type {string[]} */
const sent = [];

/**
 * @param {{ id: string, email: string }} order
 * @param {string} text
 */
async function sendMail(order, text) {
  sent.push(`${order.email}: ${text}`);
  return { mail: sent.length };
}

// A function of the arguments makes the key; the operation is a label of its own, which survives a rename.
const sendOnce = guard.wrap(sendMail, { operation: "mail", key: (order) => order.id });
const order = { id: "order-1", email: "ada@example.com" };
const [first, second] = await Promise.all([sendOnce(order, "Thank you!"), sendOnce(order, "Thank you!")]);
assert.deepEqual(first, second);
assert.equal(sent.length, 1);
console.log(`wrap: two calls, ${sent.length} mail`);

// keyFrom names arguments, or members of them, instead: here one mail for each order and text.
const sendEach = guard.wrap(sendMail, { operation: "mail-each", keyFrom: ["0.id", 1] });
await sendEach(order, "Shipped.");
await sendEach(order, "Delivered.");
await sendEach(order, "Delivered.");
assert.deepEqual(sent.slice(1), ["ada@example.com: Shipped.", "ada@example.com: Delivered."]);
console.log("keyFrom: three calls, two mails");

class Warehouse {
  /** @type {string[]} */
  shipped = [];

  /** @param {{ id: string }} parcel */
  async ship(parcel) {
    this.shipped.push(parcel.id);
    return { tracking: `track-${this.shipped.length}` };
  }
}

// In TypeScript this is one line above the method: @idempotent(guard, { operation: "ship", keyFrom: ["0.id"] }).
// JavaScript has no syntax for decorators yet, so it is applied by hand, as a compiler would.
const decorate = idempotent(guard, { operation: "ship", keyFrom: ["0.id"] });
const ship = Object.getOwnPropertyDescriptor(Warehouse.prototype, "ship");
assert.ok(ship);
Object.defineProperty(Warehouse.prototype, "ship", decorate(Warehouse.prototype, "ship", ship));

const warehouse = new Warehouse();
const parcel = { id: "parcel-7" };
assert.deepEqual(await warehouse.ship(parcel), await warehouse.ship(parcel));
assert.deepEqual(warehouse.shipped, ["parcel-7"]);
console.log(`decorator: two calls, ${warehouse.shipped.length} parcel`);

await guard.close();
