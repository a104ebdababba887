/** Tests `require`, and that memory is refused in production. */
import { expect, onTestFinished, test } from "vitest";
import type { StoreSettings } from "../../src/core/durability.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { openReservations } from "../../src/reservations/open.ts";
import { HOUR_MS, openDesk } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

test("a store that does not survive what is required writes nothing, and ready() says why", async () => {
  const store = memoryReservations();
  const { desk } = openDesk({ store, require: "power-loss" });
  await expect(desk.ready()).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining('require: "power-loss"'),
  });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({
    reason: "storage-failure",
    detail: expect.stringContaining('require: "power-loss"'),
  });
  await expect(desk.sweep()).rejects.toMatchObject({ code: "store-unsafe" });
  expect((await store.keys({ namespace: "default", limit: 9 })).rows).toEqual([]);
});

test("a store that survives it works", async () => {
  const yes = { survives: "yes", because: "it is a test" } as const;
  const survives = { "our-crash": yes, "store-crash": yes, "power-loss": yes, failover: yes };
  const settings: StoreSettings = { title: "a store", survives, notes: [] };
  const store = { ...memoryReservations(), settings: async () => settings };
  const { desk } = openDesk({ store, require: "power-loss" });
  await desk.ready();
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
});

test("an unknown fault is refused", () => {
  expect(() => openDesk({ require: "flood" as never })).toThrow("require");
});

test("production refuses memory, unless it is allowed", async () => {
  const { NODE_ENV, NEVERTWICE_ALLOW_LOCAL } = process.env;
  onTestFinished(() => {
    Object.assign(process.env, { NODE_ENV });
    if (NEVERTWICE_ALLOW_LOCAL === undefined) delete process.env.NEVERTWICE_ALLOW_LOCAL;
  });
  process.env.NODE_ENV = "production";
  await expect(openReservations("memory:")).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("NEVERTWICE_ALLOW_LOCAL"),
  });
  await (await openReservations("memory:", { allowMemory: true })).close();
  process.env.NEVERTWICE_ALLOW_LOCAL = "true";
  await (await openReservations("memory:")).close();
});
