/** Who has a place: so many at once, old entries never all of them, and no entry twice at a time. */
import { expect, test } from "vitest";
import type { StreamEntry } from "../../../src/events/redis-streams/group.ts";
import { placesFor } from "../../../src/events/redis-streams/places.ts";

function scene(concurrency: number) {
  const served: { id: string; letGo: () => void; end: () => void }[] = [];
  const places = placesFor(
    concurrency,
    ({ id }, letGo) => new Promise((end) => void served.push({ id, letGo, end })),
  );
  const entry = (id: string): StreamEntry => ({ stream: "orders", id, fields: {} });
  return { places, served, ids: () => served.map(({ id }) => id), entry };
}

test("old entries get half of the places, and at least one", () => {
  const { places, entry } = scene(5);
  expect([places.room(false), places.room(true)]).toEqual([5, 2]);
  places.take([entry("1"), entry("2")], true);
  expect([places.room(false), places.room(true)]).toEqual([3, 0]);
  expect(scene(1).places.room(true)).toBe(1);
});

test("a place is free once its entry is done", async () => {
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

test("an entry that is worked on is not taken again; one that was let go is, and is then worked on once", async () => {
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
