/** A hospital bed: the coordinator clicks twice, two wards request the same bed, and the patient goes home. One patient at a time. */
import assert from "node:assert/strict";
import { createReservations, WINDOWS } from "nevertwice/reservations";
import { memoryReservations } from "nevertwice/reservations/memory";

const beds = createReservations({ store: memoryReservations(), windowMs: WINDOWS.clientReplay });
const hours = 3_600_000;

// "Assign bed" hangs, so the coordinator clicks again. The dashboard created one key when the dialogue opened.
const click = { resource: "bed 307", requester: "patient 41", durationMs: 2 * hours, key: "dialogue-9f2c" };
const [first, second] = await Promise.all([beds.placeHold(click), beds.placeHold(click)]);
assert(first.ok && second.ok && first.id === second.id);
const events = await beds.history(first.id);
console.log(`two clicks, one assignment: ${events.length} entry in the log`);

// Another ward requests the same bed. Its retry gets the same rejection.
const ward = { resource: "bed 307", requester: "patient 52", durationMs: 2 * hours, key: "dialogue-77aa" };
const rejected = await beds.placeHold(ward);
assert(!rejected.ok);
assert.deepEqual(await beds.placeHold(ward), rejected);
console.log(`another ward: ${rejected.reason}`);

// The patient is in the bed: the hold is confirmed. The bed stays taken until it is given back.
await beds.confirm({ id: first.id, key: "arrival-41" });
assert.equal((await beds.resource("bed 307"))?.taken, 1);
await beds.giveBack({ id: first.id, key: "discharge-41" });
const next = await beds.placeHold({ ...ward, key: "dialogue-c01d" });
assert(next.ok);
console.log("after the discharge: patient 52 has bed 307");

const kinds = (await beds.history(first.id)).map(({ kind }) => kind);
console.log(`patient 41: ${kinds.join(", ")}`);
await beds.close();
