/** Actions whose store fails: the answers of callers, their retries, and that a failed group affects no other caller. */
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

describe("when the store fails", () => {
  test("once or twice, it is retried, and the caller gets only the answer", async () => {
    const { store, rooms } = open(["refused", "reply-lost"]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect(store.transactions).toBe(3);
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("every time, the answer is storage-failure: nothing was written, and the same request may be sent again", async () => {
    const { store, rooms } = open(["refused", "refused", "refused"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toEqual({ ok: false, reason: "storage-failure", detail: "the disk is full" });
    expect((await store.keys({ namespace: "default", limit: 9 })).rows).toEqual([]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  });

  test("without reporting whether it wrote, the answer is recording-failure with the decision", async () => {
    const { rooms } = open(["reply-lost", "refused", "refused"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toMatchObject({ ok: false, reason: "recording-failure", answer: { ok: true } });
    const again = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toHaveProperty("answer", again);
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("without writing and without reporting it, the answer is recording-failure, and a retry with the same key is safe", async () => {
    const { rooms } = open(["never-sent", "never-sent", "never-sent"]);
    const answer = await rooms.placeHold({ ...ROOM, key: "k" });
    expect(answer).toMatchObject({ ok: false, reason: "recording-failure", answer: { ok: true } });
    expect((await rooms.listHeld()).rows).toEqual([]);
    expect(await rooms.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect((await rooms.listHeld()).rows).toHaveLength(1);
  });

  test("for a group, each action is retried alone, and every caller gets its own answer", async () => {
    const { store, rooms } = open(["reply-lost"]);
    const answers = await Promise.all(
      ["a", "b", "c"].map((resource) => rooms.placeHold({ ...ROOM, resource, key: resource })),
    );
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(store.transactions).toBe(4);
    expect((await rooms.listHeld()).rows).toHaveLength(3);
  });

  test("for a group that may be written, no caller gets storage-failure, even if every later try is refused", async () => {
    const { rooms } = open(["reply-lost", ...Array.from({ length: 6 }, (): Failure => "refused")]);
    const ask = () =>
      Promise.all(["a", "b"].map((resource) => rooms.placeHold({ ...ROOM, resource, key: resource })));
    const answers = await ask();
    for (const answer of answers)
      expect(answer).toMatchObject({ reason: "recording-failure", answer: { ok: true } });
    expect(answers.map((answer) => "answer" in answer && answer.answer)).toEqual(await ask());
  });

  test("to answer in time, the answer is recording-failure, and a retry with the same key gets the answer later", async () => {
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

describe("actions that arrive together", () => {
  test("share a transaction, up to 64 in each", async () => {
    const { store, rooms } = open();
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => rooms.placeHold({ ...ROOM, resource: `${i}`, key: `${i}` })),
    );
    expect(store.transactions).toBe(4);
  });
});

describe("a request", () => {
  test("with an unknown parameter throws options-invalid", async () => {
    const { rooms } = open();
    const request = { ...ROOM, key: "k", duration: 5 };
    await expect(rooms.placeHold(request)).rejects.toMatchObject({ code: "options-invalid" });
    await expect(rooms.confirm(undefined as never)).rejects.toThrow();
  });
});

describe("createReservations", () => {
  const store = memoryReservations();
  test.each<[string, Record<string, unknown>, string]>([
    ["a missing store", { store: undefined }, "store is missing"],
    ["an object that is not a store", { store: {} }, "store is not a reservation store: it lacks transact"],
    ["a missing window", { windowMs: undefined }, "windowMs is missing"],
    ["a window of 0", { windowMs: 0 }, "windowMs"],
    [
      "a window that is not longer than actionMs",
      { windowMs: 5_000 },
      "it must be more than actionMs (5000)",
    ],
    ["half a millisecond of history", { historyMs: 0.5 }, "historyMs"],
    ["an empty namespace", { namespace: "" }, "namespace is empty"],
    ["an available that is not a function", { available: true }, "available"],
    ["an unknown option", { window: 1 }, "window"],
  ])("throws options-invalid with the name of the option for %s", (_, wrong, words) => {
    const options = { store, windowMs: 60_000, purgeEveryMs: 0, ...wrong } as ReservationsOptions;
    expect(() => createReservations(options)).toThrow(
      expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(words) }),
    );
  });

  test("rejects available if the store cannot call it, with the store's reason", () => {
    const refusing = { ...store, refusesAvailable: "it runs in another thread" };
    const options = { store: refusing, windowMs: 60_000, available: () => true };
    expect(() => createReservations(options)).toThrow(
      "available does not work with this store: it runs in another thread.",
    );
  });
});

describe("in the background", () => {
  test("expired holds are recorded and old keys are purged until it is closed", async () => {
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
