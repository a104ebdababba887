/** Cases of reservation stores: reads and their pages. */

import { digestHashes, hashEvent } from "../../reservations/journal.ts";
import type { Page } from "../../reservations/store.ts";
import { atLeast, expect } from "./expectation.ts";
import { all, fresh, OK, type ReservationCases } from "./scene.ts";

/** Reads pages of two rows: every row appears once, and there is no page after the last. */
async function inPages<Row>(ask: (after: string | undefined) => Promise<Page<Row>>): Promise<Row[]> {
  const sizes: number[] = [];
  const rows = await all(async (after) => {
    const page = await ask(after);
    sizes.push(page.rows.length);
    return page;
  });
  expect(sizes).toHaveLength(Math.max(1, Math.ceil(rows.length / 2)));
  expect(sizes.slice(0, -1).every((size) => size === 2)).toBe(true);
  return rows;
}

export const queries: ReservationCases = {
  async "commitments are paged by id, and filtered by resource, requester and state"(scene) {
    const { store, namespace, reservations, hold } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 9, key: fresh() });
    const ids: string[] = [];
    for (let i = 0; i < 6; i++) {
      const requester = i % 2 === 0 ? "ann" : "bob";
      ids.push(await hold(rooms, i < 4 ? "hall" : `room-${i}`, { requester }));
    }
    const [first = "", second = ""] = ids;
    await rooms.confirm({ id: first, key: fresh() });
    await rooms.release({ id: second, key: fresh() });
    const read = async (query: object) => {
      const rows = await inPages((after) => store.commitments({ namespace, limit: 2, after, ...query }));
      const found = rows.map(({ id }) => id);
      expect(found).toEqual([...found].sort());
      return found;
    };
    expect(await read({})).toEqual([...ids].sort());
    expect(await read({ resource: "hall" })).toEqual(ids.slice(0, 4).sort());
    expect(await read({ requester: "bob" })).toEqual([ids[1], ids[3], ids[5]].sort());
    expect(await read({ state: "held" })).toEqual(ids.slice(2).sort());
    expect(await read({ state: "confirmed" })).toEqual([first]);
    expect(await read({ resource: "hall", requester: "ann", state: "held" })).toEqual([ids[2]]);
    expect(await read({ resource: "nowhere" })).toEqual([]);
    expect((await rooms.listHeld({ requester: "ann" })).rows.map(({ id }) => id).sort()).toEqual(
      [ids[2], ids[4]].sort(),
    );
    expect((await rooms.list({ state: "released" })).rows.map(({ id }) => id)).toEqual([second]);
    expect(await inPages((after) => rooms.list({ resource: "hall", limit: 2, after }))).toHaveLength(4);
    const page = await rooms.byResource("hall", { limit: 3 });
    const rest = await rooms.byResource("hall", { limit: 3, after: page.next });
    expect([page.rows.length, rest.rows.length, rest.next]).toEqual([3, 1, undefined]);
  },

  async "resources are paged, and found by name"(scene) {
    const { store, namespace, reservations } = scene;
    const { resources, listResources } = reservations();
    const names = ["a", "B", "c", "é"];
    for (const [capacity, resource] of names.entries())
      await resources.declare({ resource, capacity, key: fresh() });
    const rows = await inPages((after) => store.resources({ namespace, limit: 2, after }));
    expect(Object.fromEntries(rows.map(({ name, capacity }) => [name, capacity]))).toEqual(
      Object.fromEntries(names.map((name, capacity) => [name, capacity])),
    );
    expect((await store.resources({ namespace, name: "b", limit: 2 })).rows).toEqual([]);
    expect(await inPages((after) => listResources({ limit: 2, after }))).toEqual(rows);
  },

  async "keys are paged, and found by id and by commitment"(scene) {
    const { store, namespace, reservations } = scene;
    const rooms = reservations();
    const key = fresh();
    const request = { resource: "room", requester: "ann", durationMs: 1_000 };
    const answer = await rooms.placeHold({ ...request, key, scope: "shop" });
    const id = answer.ok ? answer.id : "";
    await rooms.release({ id, key: fresh() });
    await rooms.resources.declare({ resource: "hall", capacity: 1, key: fresh() });
    const rows = await inPages((after) => store.keys({ namespace, limit: 2, after }));
    expect(rows).toHaveLength(3);
    const placed = rows.find((row) => row.key === key);
    expect(placed).toMatchObject({ namespace, scope: "shop", action: "placeHold", answer, commitment: id });
    expect(placed?.parameters).toEqual({ ...request, units: 1 });
    expect((await store.keys({ namespace, id: placed?.id, limit: 2 })).rows).toEqual([placed]);
    const acted = await all((after) => store.keys({ namespace, commitment: id, limit: 1, after }));
    expect(acted.map(({ action }) => action).sort()).toEqual(["placeHold", "release"]);
    expect(rows.find(({ action }) => action === "declare")).toMatchObject({
      scope: "",
      commitment: undefined,
      answer: OK,
    });
  },

  async "events are paged by subject, are one chain of their resource, and match their hashes and checkpoints"(
    scene,
  ) {
    const { store, namespace, reservations, hold } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 20, key: fresh() });
    const ids = await Promise.all(Array.from({ length: 12 }, () => hold(rooms, "hall")));
    await Promise.all(ids.map((id) => rooms.confirm({ id, key: fresh() })));
    for (const id of ids.slice(0, 1))
      for (let i = 0; i < 11; i++)
        await rooms.resources.adjust({ resource: "hall", capacity: 20 + i + id.length, key: fresh() });
    const events = await inPages((after) => store.events({ namespace, limit: 2, after }));
    expect(events).toHaveLength(12 * 2 + 12);
    for (const { hash, ...event } of events) expect(hashEvent(event)).toBe(hash);
    for (const [i, { subject, number, entry }] of events.entries()) {
      const before = events[i - 1];
      const isOwn = subject === "resource:hall";
      expect(number).toBe(isOwn ? entry : before?.subject === subject ? before.number + 1 : 1);
    }
    let previous = "";
    for (const [i, event] of [...events].sort((a, b) => a.entry - b.entry).entries()) {
      expect(event).toMatchObject({ resource: "hall", entry: i + 1, previous });
      previous = event.hash;
    }
    expect(await rooms.resource("hall")).toMatchObject({ events: events.length, lastHash: previous });
    const checkpoints = await inPages((after) => store.checkpoints({ namespace, limit: 2, after }));
    for (const { id, events: count, digest } of checkpoints) {
      const hashes = events.filter(({ checkpoint }) => checkpoint === id).map(({ hash }) => hash);
      expect([hashes.length, digestHashes(hashes)]).toEqual([count, digest]);
    }
    expect(checkpoints.reduce((sum, { events: count }) => sum + count, 0)).toBe(events.length);
  },

  async "history reads all pages"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 130, key: fresh() });
    const id = await hold(rooms, "hall", { units: 130 });
    await rooms.confirm({ id, key: fresh() });
    await Promise.all(Array.from({ length: 120 }, () => rooms.giveBack({ id, units: 1, key: fresh() })));
    const numbers = (await rooms.history(id)).map(({ number }) => number);
    expect(numbers).toEqual(Array.from({ length: 122 }, (_, i) => i + 1));
  },

  async "now() returns whole milliseconds"(scene) {
    const { store, namespace } = scene;
    const { now } = await store.get(namespace, "nothing");
    expect([Number.isSafeInteger(now), Number.isSafeInteger(await store.now())]).toEqual([true, true]);
    expect(await store.now()).toEqual(atLeast(now));
  },
};
