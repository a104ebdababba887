/** Suite: reads and their pages. */
import { expect, test } from "vitest";
import { digestHashes, hashEvent } from "../../../src/reservations/journal.ts";
import type { Page } from "../../../src/reservations/store.ts";
import { all, fresh, OK, type Opened } from "./scene.ts";

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

export function queryTests(open: Opened): void {
  test("commitments are paged by id, and filtered by resource, requester and state", async ({ skip }) => {
    const { store, namespace, reservations, hold } = open(skip);
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
      return new Set(found);
    };
    expect(await read({})).toEqual(new Set(ids));
    expect(await read({ resource: "hall" })).toEqual(new Set(ids.slice(0, 4)));
    expect(await read({ requester: "bob" })).toEqual(new Set([ids[1], ids[3], ids[5]]));
    expect(await read({ state: "held" })).toEqual(new Set(ids.slice(2)));
    expect(await read({ state: "confirmed" })).toEqual(new Set([first]));
    expect(await read({ resource: "hall", requester: "ann", state: "held" })).toEqual(new Set([ids[2]]));
    expect(await read({ resource: "nowhere" })).toEqual(new Set());
    expect((await rooms.listHeld({ requester: "ann" })).rows.map(({ id }) => id).sort()).toEqual(
      [ids[2], ids[4]].sort(),
    );
    expect((await rooms.list({ state: "released" })).rows.map(({ id }) => id)).toEqual([second]);
    expect(await inPages((after) => rooms.list({ resource: "hall", limit: 2, after }))).toHaveLength(4);
    const page = await rooms.byResource("hall", { limit: 3 });
    const rest = await rooms.byResource("hall", { limit: 3, after: page.next });
    expect([page.rows.length, rest.rows.length, rest.next]).toEqual([3, 1, undefined]);
  });

  test("resources are paged, and found by name", async ({ skip }) => {
    const { store, namespace, reservations } = open(skip);
    const { resources, listResources } = reservations();
    const names = ["a", "B", "c", "é"];
    for (const [capacity, resource] of names.entries())
      await resources.declare({ resource, capacity, key: fresh() });
    const rows = await inPages((after) => store.resources({ namespace, limit: 2, after }));
    expect(new Map(rows.map(({ name, capacity }) => [name, capacity]))).toEqual(
      new Map(names.map((name, capacity) => [name, capacity])),
    );
    expect((await store.resources({ namespace, name: "b", limit: 2 })).rows).toEqual([]);
    expect(await inPages((after) => listResources({ limit: 2, after }))).toEqual(rows);
  });

  test("keys are paged, and found by id and by commitment", async ({ skip }) => {
    const { store, namespace, reservations } = open(skip);
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
  });

  test("events are paged by chain, and their hashes and checkpoints match", async ({ skip }) => {
    const { store, namespace, reservations, hold } = open(skip);
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
    for (const [i, event] of events.entries()) {
      const before = events[i - 1];
      const isNext = before?.subject === event.subject;
      expect(event.number).toBe(isNext ? before.number + 1 : 1);
      expect(event.previous).toBe(isNext ? before.hash : "");
    }
    const checkpoints = await inPages((after) => store.checkpoints({ namespace, limit: 2, after }));
    for (const { id, events: count, digest } of checkpoints) {
      const hashes = events.filter(({ checkpoint }) => checkpoint === id).map(({ hash }) => hash);
      expect([hashes.length, digestHashes(hashes)]).toEqual([count, digest]);
    }
    expect(checkpoints.reduce((sum, { events: count }) => sum + count, 0)).toBe(events.length);
  });

  test("history reads all pages", async ({ skip }) => {
    const { reservations, hold } = open(skip);
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 130, key: fresh() });
    const id = await hold(rooms, "hall", { units: 130 });
    await rooms.confirm({ id, key: fresh() });
    await Promise.all(Array.from({ length: 120 }, () => rooms.giveBack({ id, units: 1, key: fresh() })));
    const numbers = (await rooms.history(id)).map(({ number }) => number);
    expect(numbers).toEqual(Array.from({ length: 122 }, (_, i) => i + 1));
  });

  test("now() returns whole milliseconds", async ({ skip }) => {
    const { store, namespace } = open(skip);
    const { now } = await store.get(namespace, "nothing");
    expect([Number.isSafeInteger(now), Number.isSafeInteger(await store.now())]).toEqual([true, true]);
    expect(await store.now()).toBeGreaterThanOrEqual(now);
  });
}
