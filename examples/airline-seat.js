/** Airline seats: after a failover, an agency sends an hour of requests again. Keys within their window return the same ids. */
import assert from "node:assert/strict";
import { createReservations } from "nevertwice/reservations";
import { memoryReservations } from "nevertwice/reservations/memory";
import { manualClock } from "nevertwice/testing";

const minute = 60_000;
const clock = manualClock();
const store = memoryReservations({ clock });
const open = () => createReservations({ store, windowMs: 60 * minute, purgeEveryMs: 0 });
const before = open();

const requests = Array.from({ length: 60 }, (_, i) => ({
  resource: `flight 400, seat ${(i % 40) + 1}`,
  requester: `passenger ${i + 1}`,
  durationMs: 24 * 60 * minute,
  key: `agency-3/${i + 1}`,
}));

// One request a minute. The last twenty requests are for seats that are taken.
/** @type {Awaited<ReturnType<typeof before.placeHold>>[]} */
const answers = [];
for (const request of requests) {
  answers.push(await before.placeHold(request));
  clock.advance(minute);
}
const held = answers.filter(({ ok }) => ok).length;
console.log(`an hour of requests: ${held} held, ${answers.length - held} rejected`);

// Five minutes later, passenger 1 has released seat 1, the servers have failed over, and the agency sends everything again.
clock.advance(5 * minute);
const [first] = answers;
assert(first?.ok);
await before.release({ id: first.id, key: "desk/1" });
await before.close();
const after = open();
const replayed = await Promise.all(requests.map((request) => after.placeHold(request)));

const same = replayed.filter((answer, i) => {
  const had = answers[i];
  return answer.ok && had?.ok && answer.id === had.id;
});
const rejected = replayed.filter((answer, i) => !answer.ok && !answers[i]?.ok);
console.log(`sent again: ${same.length} got the same id, ${rejected.length} the same rejection`);

// The keys of the first minutes are past their window: these are new requests, decided by which seats are free now.
const [free, ...late] = replayed.slice(0, 6);
assert(free?.ok && free.id !== first.id);
assert(late.every((answer) => !answer.ok && answer.reason === "resource-unavailable"));
console.log(`past the window: seat 1 was free and is held again, ${late.length} seats were taken`);

const { rows } = await after.listHeld();
assert.equal(new Set(rows.map(({ resource }) => resource)).size, rows.length);
console.log(`${rows.length} seats held, none of them twice`);
await after.close();
