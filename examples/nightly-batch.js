/** A nightly billing run: two workers claim the same invoices, each invoice is billed once, and the next run bills none. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

// Two workers share a store. Here they share a process too; with any other store they need not.
const store = memoryStore();
const workers = [createGuard({ store }), createGuard({ store })];
const invoices = Array.from({ length: 500 }, (_, i) => ({ id: `2026-11/${i + 1}`, amount: 1_000 + i }));
const broken = new Set(["2026-11/13"]);
/** @type {string[]} */
const billed = [];

/** @param {{ id: string, amount: number }} invoice */
async function bill(invoice) {
  await sleep(1);
  if (broken.has(invoice.id)) throw new Error(`the printer jams on ${invoice.id}`);
  billed.push(invoice.id);
  return { receipt: `R-${invoice.id}` };
}

/**
 * What one worker does at night: claim what can be had, then bill it.
 *
 * @param {import("nevertwice").Guard} guard
 */
async function nightlyRun(guard) {
  const claims = await guard.claimBatch(
    invoices.map(({ id, amount }) => ({ operation: "bill", key: id, fingerprint: { amount } })),
  );
  const counts = { billed: 0, failed: 0, "of another": 0, "done before": 0, "not known": 0 };
  for (const [i, claim] of claims.entries()) {
    if (claim.status === "pending") counts["of another"]++;
    else if (claim.status === "replayed") counts["done before"]++;
    else if (claim.status === "claimed") {
      try {
        await claim.complete(await bill(/** @type {{ id: string, amount: number }} */ (invoices[i])));
        counts.billed++;
      } catch (error) {
        // A completion never rejects, so this is what the billing threw.
        // The key is free again: the next run tries this one anew.
        await claim.fail(error);
        counts.failed++;
      }
    } else {
      // The store does not answer, or nobody knows how an attempt ended. Neither is a failed invoice: the next run asks again.
      counts["not known"]++;
    }
  }
  return counts;
}

// Both start at midnight. Whatever one of them has claimed, the other leaves alone.
const [first, second] = await Promise.all(workers.map(nightlyRun));
assert.ok(first && second);
assert.equal(first.billed + second.billed, 499);
assert.equal(first["of another"] + second["of another"], 500);
assert.equal(new Set(billed).size, billed.length);
console.log(`first night: ${billed.length} invoices billed once, ${first.failed + second.failed} failed`);

// Somebody starts it again by hand: only what failed is done.
broken.clear();
const [guard] = workers;
assert.ok(guard);
const again = await nightlyRun(guard);
assert.deepEqual(again, { billed: 1, failed: 0, "of another": 0, "done before": 499, "not known": 0 });
assert.equal(new Set(billed).size, 500);
console.log(`once more: ${again["done before"]} done before, ${again.billed} billed`);

// An invoice was wrong, and was taken back: its mark goes, and the next run bills it again.
assert.equal(await guard.release({ operation: "bill", key: "2026-11/7" }), true);
const corrected = await nightlyRun(guard);
assert.equal(corrected.billed, 1);
assert.equal(billed.filter((id) => id === "2026-11/7").length, 2);
console.log(`after one was taken back: ${corrected.billed} billed`);

await Promise.all(workers.map((worker) => worker.close()));
