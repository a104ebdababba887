/** Outcomes that only their application can read: sealed at rest, rotated without a gap, and never run again for want of a key. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createGuard, isNevertwiceError } from "nevertwice";
import { sealed } from "nevertwice/sealing";
import { memoryStore } from "nevertwice/stores/memory";

// In production the database, and the keys from a secret manager: openssl rand -base64 32
const database = memoryStore();
const [old, fresh] = [randomBytes(32), randomBytes(32)];
let reports = 0;

/** @param {import("nevertwice/sealing").SealingOptions} options */
function reporting(options) {
  const guard = createGuard({ store: sealed(database, options) });
  /** @param {string} visit */
  return (visit) =>
    guard.run({ operation: "report", key: visit }, async () => `report ${++reports}: all is well`);
}

async function atRest() {
  const { records } = (await database.list?.({ namespace: "default", limit: 10 })) ?? { records: [] };
  return records.map(({ outcome }) => outcome ?? "");
}

// What the database gets to see is the id of the key, and bytes that say nothing.
const report = reporting({ keys: { 2025: old }, current: "2025" });
const first = await report("visit-1");
const [kept = ""] = await atRest();
assert.ok(!kept.includes("well"));
console.log(`at rest: ${kept.slice(0, 14)}…, and replayed: ${await report("visit-1")}`);

// Rotation: the new key seals, the old one still opens.
const rotated = reporting({ keys: { 2025: old, 2026: fresh }, current: "2026" });
assert.equal(await rotated("visit-1"), first);
await rotated("visit-2");
const ids = (await atRest()).map((text) => text.split(".")[2]);
console.log(
  `rotated: sealed with ${ids.sort().join(" and ")}, and visit 1 is still ${await rotated("visit-1")}`,
);

// A key that is gone too early is an error for somebody to look at, never a second report.
const hasty = reporting({ keys: { 2026: fresh }, current: "2026" });
await assert.rejects(hasty("visit-1"), (error) => isNevertwiceError(error, "sealing-failed"));
assert.equal(reports, 2);
console.log(`without the old key: sealing-failed, and still ${reports} reports`);
