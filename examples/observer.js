/** Watching a guard: one function is told of everything that happens. Here it counts; it could as well feed a metric. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

/** @type {Map<string, number>} */
const counts = new Map();
const guard = createGuard({
  store: memoryStore(),
  observer: ({ kind }) => counts.set(kind, (counts.get(kind) ?? 0) + 1),
});

/**
 * @param {string} order
 * @param {number} amount
 */
function charge(order, amount) {
  return guard.tryRun({ operation: "charge", key: order, fingerprint: { amount } }, async () => {
    await sleep(20);
    return { receipt: `receipt for ${order}` };
  });
}

// Five callers of one order: one works, and four wait for it and are handed its receipt.
await Promise.all(Array.from({ length: 5 }, () => charge("order-1", 4_200)));
// A retry long after, and somebody who uses the key for something else.
await charge("order-1", 4_200);
await charge("order-1", 9_900);
// Work that fails gives its claim up, and the next caller gets a new one.
const failing = guard.tryRun({ operation: "charge", key: "order-2" }, () =>
  Promise.reject(new Error("declined")),
);
await assert.rejects(failing, /declined/);
await charge("order-2", 1_000);

for (const [kind, count] of [...counts].sort()) console.log(`${kind.padEnd(10)} ${count}`);
assert.deepEqual(Object.fromEntries(counts), {
  claimed: 3,
  completed: 2,
  waited: 4,
  replayed: 5,
  conflict: 1,
  abandoned: 1,
});

await guard.close();
