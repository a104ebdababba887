/** What both databases are shown to do. */
import assert from "node:assert/strict";
import { isNevertwiceError } from "nevertwice";

/**
 * @typedef {import("./dynamodb.js").Asset} Asset
 * @typedef {import("./event-place.js").Cause} Cause
 * @typedef {{
 *   upsert(asset: Asset, cause: Cause): Promise<boolean>,
 *   write(asset: Asset, expected: number, cause: Cause): Promise<number>,
 *   read(id: string): Promise<(Asset & { version: number }) | undefined>,
 * }} Assets
 */

/** @param {Assets} assets */
export async function tour(assets) {
  const pump = { id: "pump-1", facility: "north", state: "online", load: 10 };
  /** @param {number} minute */
  const event = (minute) => ({ id: `event-${minute}`, occurredAt: `2026-01-01T12:0${minute}:00.000Z` });

  // The same event twice is one row, and one version of it.
  const written = [await assets.upsert(pump, event(1)), await assets.upsert(pump, event(1))];
  assert.deepEqual(written, [true, false]);
  console.log(`upsert: two deliveries, version ${(await assets.read("pump-1"))?.version}`);

  // One that comes late changes nothing; a later one replaces.
  await assets.upsert({ ...pump, state: "offline" }, event(3));
  assert.equal(await assets.upsert({ ...pump, state: "online" }, event(2)), false);
  const now = await assets.read("pump-1");
  assert.equal(now?.state, "offline");
  console.log(`out of order: ${now?.state}, as the latest event says`);

  // Two within one second: no time says which is later, so the ids do, in whatever order they come.
  await assets.upsert({ ...pump, state: "paused" }, { ...event(3), id: "event-3-b" });
  assert.equal(await assets.upsert({ ...pump, state: "running" }, { ...event(3), id: "event-3-a" }), false);
  // A sequence number of the producer's does say it.
  assert.equal(
    await assets.upsert({ ...pump, state: "online" }, { ...event(3), id: "a", sequence: 2 }),
    true,
  );
  assert.equal(
    await assets.upsert({ ...pump, state: "paused" }, { ...event(3), id: "b", sequence: 1 }),
    false,
  );
  console.log(
    `within one second: ${(await assets.read("pump-1"))?.state}, as the highest sequence number says`,
  );

  // Each writer says which version it read. Of ten who read the same, one may write; the others are told to read again.
  const version = (await assets.read("pump-1"))?.version ?? 0;
  const writers = Array.from({ length: 10 }, (_, load) =>
    assets.write({ ...pump, load }, version, { ...event(4), id: `write-${load}` }).catch((error) => error),
  );
  const ends = await Promise.all(writers);
  const refused = ends.filter((end) => isNevertwiceError(end, "concurrent-modification"));
  assert.equal(refused.length, 9);
  console.log(
    `10 writers of version ${version}: 1 wrote version ${version + 1}, ${refused.length} were told concurrent-modification`,
  );

  // So ten that each add one, and read again when told to, add ten.
  const before = (await assets.read("pump-1"))?.load ?? 0;
  const adding = () => Array.from({ length: 10 }, (_, i) => addOne(assets, { ...event(5), id: `add-${i}` }));
  await Promise.all(adding());
  assert.equal((await assets.read("pump-1"))?.load, before + 10);
  console.log("10 that add one, reading again when told to: 10 more");

  // The same ten once more, as after a crash between the write and the record of it: each was applied before.
  await Promise.all(adding());
  assert.equal((await assets.read("pump-1"))?.load, before + 10);
  console.log("the same 10 again: none more");
}

/**
 * @param {Assets} assets
 * @param {Cause} cause
 */
async function addOne(assets, cause) {
  for (;;) {
    const found = await assets.read("pump-1");
    assert(found);
    try {
      return await assets.write({ ...found, load: found.load + 1 }, found.version, cause);
    } catch (error) {
      if (!isNevertwiceError(error, "concurrent-modification")) throw error;
    }
  }
}
