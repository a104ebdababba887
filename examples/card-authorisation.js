/** A card: an amount is held and captured in part, and the terminal retries everything over a bad line. The guest pays once. */
import assert from "node:assert/strict";
import { createReservations, WINDOWS } from "nevertwice/reservations";
import { memoryReservations } from "nevertwice/reservations/memory";

const cards = createReservations({ store: memoryReservations(), windowMs: WINDOWS.paymentRail });
await cards.resources.declare({ resource: "card 4242", capacity: 1_000_00, key: "card 4242/limit" });

const free = async () => {
  const card = await cards.resource("card 4242");
  return `${((card?.capacity ?? 0) - (card?.taken ?? 0)) / 100} of 1000 free`;
};

// The terminal requests 250.00. The answer is lost on the line, so it retries twice.
const authorisation = {
  resource: "card 4242",
  requester: "terminal 7",
  units: 250_00,
  durationMs: 7 * 24 * 3_600_000,
  key: "message-20260101-0042",
  scope: "acquirer 1",
};
const first = await cards.placeHold(authorisation);
const tries = await Promise.all([cards.placeHold(authorisation), cards.placeHold(authorisation)]);
assert(first.ok);
for (const again of tries) assert.deepEqual(again, first);
console.log(`three tries, one hold: ${await free()}`);

// A developer uses the same message number for another amount.
const wrong = await cards.placeHold({ ...authorisation, units: 300_00 });
assert(!wrong.ok);
console.log(`${wrong.reason}: ${wrong.detail}`);

// The bill is lower than the hold: 230.00 is captured once, although the capture is sent twice.
const capture = { id: first.id, units: 230_00, key: "message-20260101-0043", scope: "acquirer 1" };
assert.deepEqual(await cards.confirm(capture), { ok: true });
assert.deepEqual(await cards.confirm(capture), { ok: true });
console.log(`captured 230, and again: ${await free()}`);

// A second capture with a new message number is rejected: the hold has ended.
const second = await cards.confirm({ ...capture, key: "message-20260101-0044" });
assert(!second.ok);
console.log(`a second capture: ${second.reason}, ${second.detail}`);

const report = await cards.audit();
assert(report.ok);
console.log(`audit: ${report.counts.commitments} commitment, ${report.counts.keys} keys, nothing wrong`);
await cards.close();
