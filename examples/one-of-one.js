/** One item, many shoppers on bad mobile networks: every tap is retried, one shopper gets the item, and each gets one answer. */
import assert from "node:assert/strict";
import { createReservations, WINDOWS } from "nevertwice/reservations";
import { memoryReservations } from "nevertwice/reservations/memory";

const stock = createReservations({ store: memoryReservations(), windowMs: WINDOWS.clientReplay });
const SHOPPERS = 50;
const RETRIES = 4;

/** @param {number} shopper */
const tap = (shopper) =>
  stock.placeHold({
    resource: "watch, one of one",
    requester: `shopper ${shopper}`,
    durationMs: 15 * 60_000,
    key: `cart-${shopper}/watch`,
  });

const taps = Array.from({ length: SHOPPERS * RETRIES }, (_, i) => i % SHOPPERS);
const answers = await Promise.all(taps.map(async (shopper) => ({ shopper, answer: await tap(shopper) })));

const answersByShopper = new Map();
for (const { shopper, answer } of answers) {
  const before = answersByShopper.get(shopper);
  if (before !== undefined) assert.deepEqual(answer, before);
  answersByShopper.set(shopper, answer);
}
const winners = [...answersByShopper.values()].filter((answer) => answer.ok);
assert.equal(winners.length, 1);
console.log(
  `${answers.length} requests of ${SHOPPERS} shoppers: ${winners.length} has the item, ${SHOPPERS - 1} were rejected`,
);
const { rows } = await stock.byResource("watch, one of one");
console.log(`the shop has ${rows.length} reservation`);

// The winner releases the item. A rejected shopper stays rejected with the old key, and may try again with a new one.
const [winner] = winners;
await stock.release({ id: winner.id, key: "changed my mind" });
const [loser] = [...answersByShopper].find(([, answer]) => !answer.ok) ?? [0];
const retry = await tap(loser);
assert(!retry.ok);
console.log(`an old key: ${retry.reason}`);
const fresh = await stock.placeHold({
  resource: "watch, one of one",
  requester: `shopper ${loser}`,
  durationMs: 15 * 60_000,
  key: `cart-${loser}/watch/2`,
});
console.log(`a new key: ${fresh.ok ? "reserved" : fresh.reason}`);
await stock.close();
