/** Tests that `available` decides whether something may be held: only true and false are answers. */
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { createReservations, type ReservationStore } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";

const ROOM = { resource: "room 7", requester: "ann", durationMs: 60_000 };

const WRONG: readonly (readonly [shown: string, answer: () => unknown])[] = [
  ["undefined", () => undefined],
  ["null", () => null],
  ["0", () => 0],
  ["1", () => 1],
  ['""', () => ""],
  ['"false"', () => "false"],
  ["an object", () => ({ available: false })],
  ["a list", () => []],
  ["a function", () => () => false],
  ["a promise", async () => false],
  ["a promise", () => Promise.reject(new Error("looked up too late"))],
];

const STORES: readonly (readonly [string, () => ReservationStore])[] = [
  ["memory", () => memoryReservations()],
  ["SQLite", () => sqliteReservations({ database: new DatabaseSync(":memory:") })],
];

describe.each(STORES)("available on %s", (_, open) => {
  function desk(available: () => unknown) {
    let asked = 0;
    const reservations = createReservations({
      store: open(),
      windowMs: 600_000,
      purgeEveryMs: 0,
      available: () => {
        asked++;
        return available() as boolean;
      },
    });
    return { reservations, asked: () => asked };
  }

  test.each(WRONG)("throws options-invalid and holds nothing if it returns %s", async (shown, answer) => {
    const { reservations } = desk(answer);
    await expect(reservations.placeHold({ ...ROOM, key: "k" })).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringContaining(`available returned ${shown} for the undeclared resource "room 7"`),
    });
    expect((await reservations.list()).rows).toEqual([]);
    expect(await reservations.resource("room 7")).toBeUndefined();
  });

  test("explains what to do if it returns a promise", async () => {
    const { reservations } = desk(async () => true);
    await expect(reservations.placeHold({ ...ROOM, key: "k" })).rejects.toThrow(
      "cannot wait for a promise: look up what it needs before you call placeHold",
    );
  });

  test("stores nothing under the key: a retry with the same key works once the function is fixed", async () => {
    let answer: unknown;
    const { reservations, asked } = desk(() => answer);
    await expect(reservations.placeHold({ ...ROOM, key: "k" })).rejects.toThrow("options-invalid");
    expect(asked()).toBe(1);
    answer = true;
    expect(await reservations.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  });

  test("fails only the one hold of a group for which it returns a wrong value", async () => {
    const strange = createReservations({
      store: open(),
      windowMs: 600_000,
      purgeEveryMs: 0,
      available: ({ resource }) => (resource.name === "strange" ? (undefined as never) : true),
    });
    const [good, bad] = await Promise.allSettled([
      strange.placeHold({ ...ROOM, key: "good" }),
      strange.placeHold({ ...ROOM, resource: "strange", key: "bad" }),
    ]);
    expect(good).toMatchObject({ status: "fulfilled", value: { ok: true } });
    expect(bad).toMatchObject({ status: "rejected", reason: { code: "options-invalid" } });
  });

  test("allows the hold on true and rejects it on false", async () => {
    let answer = false;
    const { reservations } = desk(() => answer);
    expect(await reservations.placeHold({ ...ROOM, key: "no" })).toMatchObject({
      reason: "resource-unavailable",
    });
    answer = true;
    expect(await reservations.placeHold({ ...ROOM, key: "yes" })).toMatchObject({ ok: true });
  });
});
