/** Actions whose store fails: what callers are told, what they may do then, and that a group's failure is nobody else's. */
import { describe, expect, test, vi } from "vitest";
import type { ReservationsOptions } from "../../src/reservations/index.ts";
import { createReservations, WINDOWS } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { type Failure, failing } from "./failing.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: 60_000 };

function open(plan: readonly Failure[] = [], options: Partial<ReservationsOptions> = {}) {
  const store = failing(memoryReservations());
  store.plan(...plan);
  const rooms = createReservations({ store, windowMs: WINDOWS.clientReplay, purgeEveryMs: 0, ...options });
  return { store, rooms };
}

describe("a store that fails", () => {
  test("once or twice is asked again, and the caller sees the answer only", async () => {
    const { store, rooms } = open(["refused", "reply-lost"]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect(store.transactions).toBe(3);
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("for good is storage-failure: nothing was written, and the same request may be sent again", async () => {
    const { store, rooms } = open(["refused", "refused", "refused"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toEqual({ ok: false, reason: "storage-failure", detail: "the disk is full" });
    expect((await store.keys({ namespace: "default", limit: 9 })).rows).toEqual([]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  });

  test("and does not say whether it wrote is recording-failure, with what was decided", async () => {
    const { rooms } = open(["reply-lost", "refused", "refused"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toMatchObject({ ok: false, reason: "recording-failure", answer: { ok: true } });
    const again = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toHaveProperty("answer", again);
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("and wrote nothing though it did not say so is recording-failure too, and the same key is safe", async () => {
    const { rooms } = open(["never-sent", "never-sent", "never-sent"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toMatchObject({ ok: false, reason: "recording-failure", answer: { ok: true } });
    expect((await rooms.listHeld()).rows).toEqual([]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("a group that failed is repeated one by one, and every caller gets an answer of its own", async () => {
    const { store, rooms } = open(["reply-lost"]);
    const answers = await Promise.all(
      ["a", "b", "c"].map((resource) => rooms.placeHold({ ...ROOM, resource, key: resource })),
    );
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(store.transactions).toBe(4);
    expect((await rooms.listHeld()).rows).toHaveLength(3);
  });

  test("a group of which nobody knows is never called unwritten, though every try alone was refused", async () => {
    const { rooms } = open(["reply-lost", ...Array.from({ length: 6 }, (): Failure => "refused")]);
    const ask = () =>
      Promise.all(["a", "b"].map((resource) => rooms.placeHold({ ...ROOM, resource, key: resource })));
    const answers = await ask();
    for (const answer of answers)
      expect(answer).toMatchObject({ reason: "recording-failure", answer: { ok: true } });
    expect(answers.map((answer) => "answer" in answer && answer.answer)).toEqual(await ask());
  });

  test("an answer that does not come in time is recording-failure, and the same key gets it later", async () => {
    const { store, rooms } = open([], { actionMs: 20 });
    const letGo = store.stall();
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toMatchObject({ ok: false, reason: "recording-failure" });
    expect(answer).toHaveProperty("detail", expect.stringContaining("send it again with the same key"));
    letGo();
    await vi.waitFor(async () => expect((await rooms.listHeld()).rows).toHaveLength(1));
    const patient = createReservations({ store, windowMs: WINDOWS.clientReplay, purgeEveryMs: 0 });
    expect(await patient.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });
});

describe("what is asked together", () => {
  test("goes to the store together, up to 64 in a transaction", async () => {
    const { store, rooms } = open();
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => rooms.placeHold({ ...ROOM, resource: `${i}`, key: `${i}` })),
    );
    expect(store.transactions).toBe(4);
  });
});

describe("a request", () => {
  test("with a parameter that nobody knows is refused as the mistake it is", async () => {
    const { rooms } = open();
    const request = { ...ROOM, key: "k", duration: 5 };
    await expect(rooms.placeHold(request)).rejects.toMatchObject({ code: "options-invalid" });
    await expect(rooms.confirm(undefined as never)).rejects.toThrow();
  });
});

describe("createReservations", () => {
  const store = memoryReservations();
  test.each<[string, Record<string, unknown>, string]>([
    ["no store", { store: undefined }, "store is missing"],
    ["what is no store", { store: {} }, "store is no store of reservations: it lacks transact"],
    ["no window", { windowMs: undefined }, "windowMs is missing"],
    ["a window of nothing", { windowMs: 0 }, "windowMs"],
    [
      "a window that is not longer than one action",
      { windowMs: 5_000 },
      "it must be more than actionMs (5000)",
    ],
    ["half a millisecond of history", { historyMs: 0.5 }, "historyMs"],
    ["an empty namespace", { namespace: "" }, "namespace is empty"],
    ["availability that is no function", { available: true }, "available"],
    ["an unknown option", { window: 1 }, "window"],
  ])("refuses %s by name", (_, wrong, words) => {
    const options = { store, windowMs: 60_000, purgeEveryMs: 0, ...wrong } as ReservationsOptions;
    expect(() => createReservations(options)).toThrow(
      expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(words) }),
    );
  });

  test("refuses an availability function where the store cannot ask it, with the store's reason", () => {
    const refusing = { ...store, refusesAvailable: "it runs in another thread" };
    const options = { store: refusing, windowMs: 60_000, available: () => true };
    expect(() => createReservations(options)).toThrow(
      "available cannot be asked here: it runs in another thread.",
    );
  });
});

describe("in the background", () => {
  test("what expired is written down, and keys past their time are removed, until it is closed", async () => {
    const clock = manualClock();
    const store = failing(memoryReservations({ clock }));
    const rooms = createReservations({ store, windowMs: 60_000, sweepEveryMs: 1, purgeEveryMs: 1 });
    const placed = await rooms.placeHold({ ...ROOM, key: "k" });
    const id = placed.ok ? placed.id : "";
    clock.advance(60_000);
    await vi.waitFor(async () => expect(await rooms.get(id)).toMatchObject({ state: "expired" }));
    clock.advance(60_000);
    await vi.waitFor(async () =>
      expect((await store.keys({ namespace: "default", limit: 9 })).rows).toEqual([]),
    );
    await rooms.close();
    const before = store.transactions;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(store.transactions).toBe(before);
  });
});
