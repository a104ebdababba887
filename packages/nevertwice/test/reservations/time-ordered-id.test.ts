/** Ids of commitments and transactions: UUIDs that sort in the order in which they were drawn. */
import { expect, test } from "vitest";
import { createTimeOrderedId } from "../../src/reservations/time-ordered-id.ts";

const VERSION_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("ids are UUIDs of version 7 that begin with the time", () => {
  const from = Date.now();
  const id = createTimeOrderedId();
  expect(id).toMatch(VERSION_7);
  const time = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
  expect(time).toBeGreaterThanOrEqual(from);
  expect(time).toBeLessThanOrEqual(Date.now() + 1_000);
});

test("ids sort in the order in which they were drawn, also many in one millisecond and after the clock was set back", () => {
  const at = Date.now() + 10_000;
  const ids: string[] = [];
  for (const time of [at, at + 1, at - 5_000])
    for (let i = 0; i < 5_000; i++) ids.push(createTimeOrderedId(time));
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(15_000);
  for (const id of ids) expect(id).toMatch(VERSION_7);
});

test("ids of the same time differ: the rest is random", () => {
  const ends = new Set(Array.from({ length: 1_000 }, () => createTimeOrderedId().slice(19)));
  expect(ends.size).toBe(1_000);
});
