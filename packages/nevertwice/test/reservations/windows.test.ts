/** Tests the time windows of reservations. */
import { expect, test, vi } from "vitest";
import { createReservations, WINDOWS } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

test("Grace: completion window: a minute, ten minutes or a day, counted from the first use", async () => {
  expect(WINDOWS).toEqual({ httpRetry: MINUTE_MS, clientReplay: 10 * MINUTE_MS, paymentRail: 24 * HOUR_MS });
  for (const windowMs of Object.values(WINDOWS)) {
    const { desk, clock } = openDesk({ windowMs });
    const first = await desk.placeHold({ ...ROOM, durationMs: 48 * HOUR_MS, key: "k" });
    clock.advance(windowMs - 1);
    expect(await desk.placeHold({ ...ROOM, durationMs: 48 * HOUR_MS, key: "k" })).toEqual(first);
    clock.advance(1);
    expect(await desk.placeHold({ ...ROOM, durationMs: 48 * HOUR_MS, key: "k" })).toMatchObject({
      ok: false,
    });
  }
});

test("Grace: separate in-flight window: an action has its own, and one that is over it is not guessed about", async () => {
  const { desk, store } = openDesk({ actionMs: 20 });
  const letGo = store.stall();
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({
    ok: false,
    reason: "recording-failure",
  });
  letGo();
  await vi.waitFor(async () => expect((await desk.listHeld()).rows).toHaveLength(1));
});

test("Grace: window never extended by repeats: retries up to its end do not move it", async () => {
  const { desk, clock } = openDesk({ windowMs: 10 * MINUTE_MS });
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  await desk.release({ id, key: "r" });
  for (let minute = 1; minute < 10; minute++) {
    clock.advance(MINUTE_MS);
    expect(await desk.placeHold({ ...ROOM, key: "k" })).toEqual({ ok: true, id });
  }
  clock.advance(MINUTE_MS);
  expect(placedId(await desk.placeHold({ ...ROOM, key: "k" }))).not.toBe(id);
});

test("Grace: lazy expiry on access: a key past its window is absent before it is removed", async () => {
  const { desk, clock, store } = openDesk({ windowMs: MINUTE_MS });
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  await desk.release({ id, key: "r" });
  clock.advance(MINUTE_MS);
  expect((await store.keys({ namespace: NAMESPACE, limit: 9 })).rows).toHaveLength(2);
  expect(await desk.confirm({ id, key: "k" })).toMatchObject({ reason: "not-held" });
});

test("Grace: background sweep: keys past their time are removed and what expired is written down, by themselves", async () => {
  const { desk, clock, store, another } = openDesk({ windowMs: MINUTE_MS });
  const id = placedId(await desk.placeHold({ ...ROOM, durationMs: MINUTE_MS, key: "k" }));
  clock.advance(MINUTE_MS);
  const sweeper = another({ sweepEveryMs: 1, purgeEveryMs: 1 });
  // The first call starts the sweeps.
  await sweeper.get(id);
  await vi.waitFor(async () => {
    expect(await desk.get(id)).toMatchObject({ state: "expired" });
    expect((await store.keys({ namespace: NAMESPACE, limit: 9 })).rows.map(({ key }) => key)).not.toContain(
      "k",
    );
  });
  await sweeper.close();
});

test("Grace: safe eviction order (guard before result): they are one row, and purge takes none that still answers", async () => {
  const { desk, clock, store } = openDesk({ windowMs: MINUTE_MS });
  await desk.placeHold({ ...ROOM, key: "k" });
  clock.advance(MINUTE_MS - 1);
  expect(await store.purge(9)).toEqual({ removed: 0, more: false });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  clock.advance(1);
  expect(await store.purge(9)).toEqual({ removed: 1, more: false });
});

test("Grace: bound < window checked at start: a window that an action could outlast is refused", () => {
  const store = memoryReservations();
  const open = (windowMs: number, actionMs: number) =>
    createReservations({ store, windowMs, actionMs, purgeEveryMs: 0 });
  expect(() => open(1_000, 1_000)).toThrow(expect.objectContaining({ code: "options-invalid" }));
  expect(open(1_001, 1_000)).toHaveProperty("placeHold");
});

test("Grace: injectable clock: a day passes at once", async () => {
  const { desk, clock } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, durationMs: 24 * HOUR_MS, key: "k" }));
  clock.advance(24 * HOUR_MS);
  expect(await desk.expire({ id, key: "e" })).toEqual({ ok: true });
});

test("Grace: long horizon (beyond window): with a history a key answers for a year", async () => {
  const { desk, clock } = openDesk({ historyMs: 365 * 24 * HOUR_MS });
  const first = await desk.placeHold({ ...ROOM, key: "k" });
  clock.advance(364 * 24 * HOUR_MS);
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toEqual(first);
});
