/** The slots of entries: limited in number, never all taken by claimed entries, and never two for one entry. */
import { expect, test } from "vitest";
import { createEntrySlots } from "../../../src/events/redis-streams/entry-slots.ts";
import type { StreamEntry } from "../../../src/events/redis-streams/group.ts";

function scene(concurrency: number) {
  const served: { id: string; letGo: () => void; end: () => void }[] = [];
  const places = createEntrySlots(
    concurrency,
    ({ id }, letGo) => new Promise((end) => void served.push({ id, letGo, end })),
  );
  const entry = (id: string): StreamEntry => ({ stream: "orders", id, fields: {} });
  return { places, served, ids: () => served.map(({ id }) => id), entry };
}

test("claimed entries get at most half of the slots, and at least one", () => {
  const { places, entry } = scene(5);
  expect([places.room(false), places.room(true)]).toEqual([5, 2]);
  places.take([entry("1"), entry("2")], true);
  expect([places.room(false), places.room(true)]).toEqual([3, 0]);
  expect(scene(1).places.room(true)).toBe(1);
});

test("a slot is free once its entry is done", async () => {
  const { places, served, entry } = scene(2);
  places.take([entry("1"), entry("2")], false);
  expect(places.room(false)).toBe(0);
  served[1]?.end();
  await places.vacated();
  expect([places.room(false), places.taken()]).toEqual([1, 1]);
  served[0]?.end();
  await places.idle();
  expect(places.taken()).toBe(0);
});

test("an entry in progress is not taken again; a released entry is, and is then processed once", async () => {
  const { places, served, ids, entry } = scene(4);
  places.take([entry("1")], false);
  places.take([entry("1")], true);
  expect(ids()).toEqual(["1"]);
  served[0]?.letGo();
  expect(places.room(false)).toBe(3);
  places.take([entry("1")], true);
  expect(ids()).toEqual(["1", "1"]);
  served[0]?.end();
  await places.vacated();
  places.take([entry("1")], true);
  expect(ids()).toEqual(["1", "1"]);
});
