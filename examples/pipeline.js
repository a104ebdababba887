/** A network of nodes from the manifests in the folder pipeline. An order is charged once, however often it is delivered. */
import assert from "node:assert/strict";
import { createGuard } from "nevertwice";
import { loadPipeline } from "nevertwice/pipeline";
import { memoryStore } from "nevertwice/stores/memory";
import { bank, reviews } from "./pipeline/nodes.js";

const definition = await loadPipeline(new URL("./pipeline/orders.toml", import.meta.url));
const guard = createGuard({ store: memoryStore(), namespace: "shop" });
const receipts = /** @type {{ receipt: string }[]} */ ([]);
const events = /** @type {string[]} */ ([]);
const pipeline = await definition.start(guard, {
  on: { receipts: (/** @type {{ receipt: string }} */ receipt) => receipts.push(receipt) },
  onEvent: ({ kind }) => events.push(kind),
});

const order = { request_id: "r-1", customer: "ada", card: "4242", items: [{ price: 1_200, count: 2 }] };

// Five deliveries at once: one charge. The others are duplicates, or get the verdict `later`.
const outcomes = await Promise.all(Array.from({ length: 5 }, () => pipeline.push("orders", order)));
const done = outcomes.filter(({ verdict }) => verdict === "acknowledge").length;
assert.ok(done >= 1);
assert.equal(bank.charges.size, 1);
const again = await pipeline.push("orders", order);
assert.equal(again.verdict, "acknowledge");
console.log(`six deliveries: ${bank.charges.size} charge, ${receipts.length} receipt`);

// A waiting caller gets the stored reply, without another charge.
const answer = await pipeline.request("orders", order);
assert.ok(answer.status === "replied");
console.log("asked again: replied", /** @type {{ receipt: string }} */ (answer.value).receipt);

// The bank is busy once: the retry runs under the same claim.
bank.busy = true;
await pipeline.push("orders", { ...order, request_id: "r-2" });
assert.equal(bank.charges.size, 2);
console.log(`busy: ${events.filter((kind) => kind === "retrying").length} retry, then charged`);

// An order that lacks a field of its key is refused, never charged without one.
const refused = await pipeline.push("orders", { ...order, customer: undefined });
console.log(`no customer: ${refused.verdict}, ${refused.failures[0]?.reason}`);

// A large order is put on a reviewer's list, once.
const large = { ...order, request_id: "r-3", items: [{ price: 90_000, count: 2 }] };
await pipeline.push("orders", large);
await pipeline.push("orders", large);
console.log(`on the list: ${reviews.join(", ")}`);

await pipeline.close();
await guard.close();
