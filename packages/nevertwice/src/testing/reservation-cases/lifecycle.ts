/** Cases of reservation stores: holds and their ends. */
import { atLeast, either, expect } from "./expectation.ts";
import { fresh, HOUR_MS, MOMENT_MS, OK, PLACED, type ReservationCases, rejected } from "./scene.ts";

export const lifecycle: ReservationCases = {
  async "a hold is placed, read back, and confirmed once"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room", { requester: "ann" });
    const held = await rooms.get(id);
    expect(held).toMatchObject({
      id,
      resource: "room",
      requester: "ann",
      units: 1,
      occupied: 1,
      state: "held",
    });
    expect(held).toMatchObject({ isElapsed: false, expiresAt: (held?.placedAt ?? 0) + HOUR_MS });
    expect([held?.endedAt, held?.confirmedUnits]).toEqual([undefined, undefined]);
    expect(await rooms.confirm({ id, key: fresh() })).toEqual(OK);
    const confirmed = await rooms.get(id);
    expect(confirmed).toMatchObject({
      state: "confirmed",
      confirmedUnits: 1,
      occupied: 1,
      placedAt: held?.placedAt,
    });
    expect(confirmed).toMatchObject({ endedAt: atLeast(confirmed?.placedAt) });
    for (const again of [rooms.confirm, rooms.release, rooms.expire])
      expect(await again({ id, key: fresh() })).toEqual(rejected("not-held"));
    expect(await rooms.get(id)).toEqual(confirmed);
  },

  async "a released hold frees its resource and is released once"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room");
    expect(await rooms.release({ id, key: fresh() })).toEqual(OK);
    expect(await rooms.get(id)).toMatchObject({ state: "released", occupied: 0, confirmedUnits: undefined });
    for (const again of [rooms.confirm, rooms.release, rooms.expire])
      expect(await again({ id, key: fresh() })).toEqual(rejected("not-held"));
    expect((await hold(rooms, "room")) === id, "the new hold is the old one").toBe(false);
  },

  async "an expired hold frees its resource and is expired once"(scene) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room", { durationMs: MOMENT_MS });
    await pass(MOMENT_MS);
    expect(await rooms.expire({ id, key: fresh() })).toEqual(OK);
    const expired = await rooms.get(id);
    expect(expired).toMatchObject({ state: "expired", occupied: 0, isElapsed: false });
    expect(expired).toMatchObject({ endedAt: atLeast(expired?.expiresAt) });
    for (const again of [rooms.confirm, rooms.release, rooms.expire])
      expect(await again({ id, key: fresh() })).toEqual(rejected("not-held"));
    expect((await hold(rooms, "room")) === id, "the new hold is the old one").toBe(false);
  },

  async "a hold whose time is not over cannot be expired"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room");
    expect(await rooms.expire({ id, key: fresh() })).toEqual(rejected("window-not-elapsed"));
    expect(await rooms.get(id)).toMatchObject({ state: "held" });
  },

  async "a hold past its time reads as elapsed, can no longer be confirmed, and can be released"(scene) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room", { durationMs: MOMENT_MS });
    await pass(MOMENT_MS);
    expect(await rooms.get(id)).toMatchObject({ state: "held", isElapsed: true });
    expect((await rooms.listHeld()).rows).toMatchObject([{ id, isElapsed: true }]);
    expect(await rooms.confirm({ id, key: fresh() })).toEqual(rejected("window-elapsed"));
    expect(await rooms.release({ id, key: fresh() })).toEqual(OK);
  },

  async "at expiresAt confirm is rejected and expire allowed; a millisecond earlier it is the other way round"(
    scene,
  ) {
    const { reservations, hold, pass, advance } = scene;
    const rooms = reservations();
    const [early, late] = [
      await hold(rooms, "early", { durationMs: MOMENT_MS }),
      await hold(rooms, "late", { durationMs: MOMENT_MS }),
    ];
    if (advance !== undefined) {
      await advance(MOMENT_MS - 1);
      expect(await rooms.expire({ id: late, key: fresh() })).toEqual(rejected("window-not-elapsed"));
      expect(await rooms.confirm({ id: early, key: fresh() })).toEqual(OK);
    }
    await pass(advance === undefined ? MOMENT_MS : 1);
    expect(await rooms.confirm({ id: late, key: fresh() })).toEqual(rejected("window-elapsed"));
    expect(await rooms.expire({ id: late, key: fresh() })).toEqual(OK);
  },

  async "an unknown id is not-known, whatever it looks like"(scene) {
    const { reservations } = scene;
    const rooms = reservations();
    for (const id of [fresh(), "no such", "' OR 1 = 1", "1", "x".repeat(1_000)]) {
      expect(await rooms.get(id)).toBe(undefined);
      expect(await rooms.history(id)).toEqual([]);
      for (const act of [rooms.confirm, rooms.release, rooms.expire, rooms.giveBack])
        expect(await act({ id, key: fresh() })).toEqual(rejected("not-known"));
    }
    for (const act of [rooms.confirm, rooms.release, rooms.expire, rooms.giveBack])
      expect(await act({ id: "", key: fresh() })).toEqual(rejected("invalid-request"));
  },

  async "an invalid request is rejected, and its key stays rejected"(scene) {
    const { reservations } = scene;
    const rooms = reservations({ maxDurationMs: HOUR_MS });
    const good = { resource: "room", requester: "ann", durationMs: HOUR_MS, units: 1 };
    const bad = [
      { resource: "" },
      { resource: " \t" },
      { resource: "\ud800" },
      { resource: 7 },
      { requester: "" },
      { requester: null },
      { durationMs: 0 },
      { durationMs: 1.5 },
      { durationMs: HOUR_MS + 1 },
      { durationMs: "1000" },
      { durationMs: Number.NaN },
      { units: 0 },
      { units: 1.5 },
      { units: {} },
    ];
    for (const wrong of bad) {
      const request = { ...good, ...wrong, key: fresh() } as Parameters<typeof rooms.placeHold>[0];
      const answer = await rooms.placeHold(request);
      expect(answer, JSON.stringify(wrong)).toEqual(rejected("invalid-request"));
      expect(await rooms.placeHold(request)).toEqual(answer);
      expect(await rooms.placeHold({ ...good, key: request.key })).toEqual(rejected("token-collision"));
    }
    expect((await rooms.listHeld()).rows).toEqual([]);
  },

  async "a held or confirmed resource is unavailable to another requester"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room");
    const other = { resource: "room", requester: "bob", durationMs: HOUR_MS };
    expect(await rooms.placeHold({ ...other, key: fresh() })).toEqual(rejected("resource-unavailable"));
    await rooms.confirm({ id, key: fresh() });
    expect(await rooms.placeHold({ ...other, key: fresh() })).toEqual(rejected("resource-unavailable"));
    expect(await rooms.giveBack({ id, key: fresh() })).toEqual(OK);
    expect(await rooms.placeHold({ ...other, key: fresh() })).toEqual(PLACED);
  },

  async "elapsed holds are expired to make room for a new one, oldest first and only as many as needed"(
    scene,
  ) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "room", capacity: 3, key: fresh() });
    const ids: string[] = [];
    for (const ms of [40, 0, 20]) ids.push(await hold(rooms, "room", { durationMs: MOMENT_MS + ms }));
    await pass(MOMENT_MS + 40);
    const id = await hold(rooms, "room", { units: 2 });
    const byAge = (await rooms.byResource("room")).rows
      .filter((row) => ids.includes(row.id))
      .sort((a, b) => a.expiresAt - b.expiresAt || (a.state < b.state ? -1 : 1));
    expect(byAge.map(({ state }) => state)).toEqual(["expired", "expired", "held"]);
    expect((await rooms.resource("room"))?.taken).toBe(3);
    const last = (await rooms.history(byAge[0]?.id as string)).at(-1);
    expect(last).toMatchObject({ kind: "expired", keyId: undefined });
    expect((await rooms.get(id))?.placedAt).toBe(last?.at);
  },

  async "a large hold gets the units of any number of small elapsed holds"(scene) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations({ actionMs: 30_000 });
    const many = 1_100;
    await rooms.resources.declare({ resource: "room", capacity: many, key: fresh() });
    await Promise.all(Array.from({ length: many }, () => hold(rooms, "room", { durationMs: MOMENT_MS })));
    await pass(MOMENT_MS);
    await hold(rooms, "room", { units: many });
    expect((await rooms.resource("room"))?.taken).toBe(many);
    expect((await rooms.listHeld({ resource: "room" })).rows).toHaveLength(1);
  },

  async "a hold gets the units of an elapsed hold although the group released another one and took its units"(
    scene,
  ) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "room", capacity: 2, key: fresh() });
    const id = await hold(rooms, "room", { durationMs: MOMENT_MS });
    await hold(rooms, "room", { durationMs: MOMENT_MS + 1 });
    await pass(MOMENT_MS + 1);
    const request = { resource: "room", requester: "bob", durationMs: HOUR_MS, key: fresh() };
    const answers = await Promise.all([
      rooms.release({ id, key: fresh() }),
      rooms.resources.adjust({ resource: "room", capacity: 1, key: fresh() }),
      rooms.placeHold(request),
    ]);
    expect(answers).toEqual([OK, OK, PLACED]);
  },

  async "a hold that is rejected after elapsed holds were expired leaves consistent records"(scene) {
    const { reservations, hold, pass } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "room", capacity: 2, key: fresh() });
    await hold(rooms, "room");
    const id = await hold(rooms, "room", { durationMs: MOMENT_MS });
    await pass(MOMENT_MS);
    const request = { resource: "room", requester: "bob", durationMs: HOUR_MS, units: 2, key: fresh() };
    expect(await rooms.placeHold(request)).toEqual(rejected("resource-unavailable"));
    const { state, occupied } = (await rooms.get(id)) ?? {};
    const taken = (await rooms.resource("room"))?.taken;
    expect([state, occupied, taken]).toEqual(either(["held", 1, 2], ["expired", 0, 1]));
    expect(await rooms.confirm({ id, key: fresh() })).toMatchObject({ ok: false });
  },

  async "elapsed holds are found oldest first, and swept once"(scene) {
    const { store, namespace, reservations, hold, pass } = scene;
    const rooms = reservations();
    const ids: string[] = [];
    for (const ms of [60, 0, 40, 20])
      ids.push(await hold(rooms, `room-${ms}`, { durationMs: MOMENT_MS + ms }));
    const long = await hold(rooms, "another");
    await pass(MOMENT_MS + 60);
    const findEnds = async (found: readonly string[]) =>
      Promise.all(found.map(async (id) => (await rooms.get(id))?.expiresAt as number));
    const ends = (await findEnds(ids)).sort((a, b) => a - b);
    expect(await findEnds(await store.elapsed(namespace, 2))).toEqual(ends.slice(0, 2));
    const all = await store.elapsed(namespace, 9);
    expect(await findEnds(all)).toEqual(ends);
    for (const [place, id] of all.entries()) {
      expect(await store.elapsed(namespace, 2, id)).toEqual(all.slice(place + 1, place + 3));
    }
    expect(await rooms.sweep(3)).toBe(3);
    expect(await findEnds(await store.elapsed(namespace, 9))).toEqual(ends.slice(3));
    expect([await rooms.sweep(), await rooms.sweep()]).toEqual([1, 0]);
    for (const id of ids) expect(await rooms.get(id)).toMatchObject({ state: "expired", occupied: 0 });
    expect(await rooms.get(long)).toMatchObject({ state: "held" });
  },

  async "each transition appends an event to a chain, with the time of one clock reading"(scene) {
    const { store, namespace, reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room");
    const key = fresh();
    await rooms.confirm({ id, key });
    await rooms.giveBack({ id, key: fresh() });
    const events = await rooms.history(id);
    const commitment = await rooms.get(id);
    expect(events.map(({ number, kind }) => [number, kind])).toEqual([
      [1, "placed"],
      [2, "confirmed"],
      [3, "given-back"],
    ]);
    expect(events.map(({ previous }) => previous)).toEqual(["", events[0]?.hash, events[1]?.hash]);
    expect(commitment).toMatchObject({ events: 3, lastHash: events[2]?.hash, placedAt: events[0]?.at });
    expect(commitment?.endedAt).toBe(events[1]?.at);
    const { rows } = await store.keys({ namespace, commitment: id, limit: 9 });
    const confirmed = rows.find((row) => row.key === key);
    expect(confirmed).toMatchObject({ id: events[1]?.keyId, recordedAt: events[1]?.at, answer: OK });
  },
};
