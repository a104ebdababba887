/** Cases of reservation stores: the answers of keys, and how long they are kept. */
import { containing, expect } from "./expectation.ts";
import {
  all,
  fresh,
  HOUR_MS,
  MOMENT_MS,
  OK,
  PLACED,
  type ReservationCases,
  type ReservationScene,
  rejected,
} from "./scene.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

const readKeys = ({ store, namespace }: ReservationScene) =>
  all((after) => store.keys({ namespace, limit: 100, after }));

export const keys: ReservationCases = {
  async "a retry of any action with its key gets the same answer, and the action happens once"(scene) {
    const { reservations, actions, pass } = scene;
    const rooms = reservations();
    const twice = async <T>(act: (key: string) => Promise<T>): Promise<T> => {
      const key = fresh();
      const answer = await act(key);
      expect(await act(key)).toEqual(answer);
      return answer;
    };
    const place = async (durationMs = HOUR_MS) => {
      const answer = await twice((key) => rooms.placeHold({ ...ROOM, durationMs, key }));
      if (!answer.ok) throw new Error(answer.detail);
      return answer.id;
    };
    const confirmed = await place();
    expect(await twice((key) => rooms.confirm({ id: confirmed, key }))).toEqual(OK);
    expect(await twice((key) => rooms.giveBack({ id: confirmed, key }))).toEqual(OK);
    const released = await place();
    expect(await twice((key) => rooms.release({ id: released, key }))).toEqual(OK);
    const expired = await place(MOMENT_MS);
    await pass(MOMENT_MS);
    expect(await twice((key) => actions({}).expire({ id: expired, key }))).toEqual(OK);
    const on = { resource: "hall" };
    expect(await twice((key) => rooms.resources.declare({ ...on, capacity: 3, key }))).toEqual(OK);
    expect(await twice((key) => rooms.resources.adjust({ ...on, capacity: 4, key }))).toEqual(OK);
    expect(await twice((key) => rooms.resources.suspend({ ...on, key }))).toEqual(OK);
    expect(await twice((key) => rooms.resources.resume({ ...on, key }))).toEqual(OK);
    expect(await twice((key) => rooms.resources.close({ ...on, key }))).toEqual(OK);
    const { store, namespace } = scene;
    const events = await all((after) => store.events({ namespace, limit: 50, after }));
    expect(events).toHaveLength(12);
    expect(await readKeys(scene)).toHaveLength(12);
  },

  async "a rejection is stored like any answer: the same key is rejected although the resource is free by then"(
    scene,
  ) {
    const rooms = scene.reservations();
    const id = await scene.hold(rooms, "room");
    const late = { ...ROOM, requester: "bob", key: fresh() };
    const refused = await rooms.placeHold(late);
    expect(refused).toEqual(rejected("resource-unavailable"));
    await rooms.release({ id, key: fresh() });
    expect(await rooms.placeHold(late)).toEqual(refused);
    expect(await rooms.placeHold({ ...late, key: fresh() })).toEqual(PLACED);
  },

  async "a key belongs to one action and its parameters; the answer names the parameters that differ"(scene) {
    const rooms = scene.reservations();
    const key = fresh();
    const placed = await rooms.placeHold({ ...ROOM, key });
    const id = placed.ok ? placed.id : "";
    expect(await rooms.placeHold({ ...ROOM, units: 1, key })).toEqual(placed);
    for (const other of [{ resource: "hall" }, { requester: "bob" }, { durationMs: 1 }, { units: 2 }]) {
      const answer = await rooms.placeHold({ ...ROOM, ...other, key });
      expect(answer).toMatchObject({ ok: false, reason: "token-collision" });
      expect(answer).toMatchObject({ detail: containing(Object.keys(other)[0] ?? "") });
    }
    for (const act of [rooms.confirm, rooms.release, rooms.expire, rooms.giveBack])
      expect(await act({ id, key })).toEqual(rejected("token-collision"));
    expect(await rooms.resources.declare({ resource: "room", capacity: 1, key })).toEqual(
      rejected("token-collision"),
    );
    expect(await rooms.get(id)).toMatchObject({ state: "held", events: 1 });
    expect(await readKeys(scene)).toMatchObject([
      { key, action: "placeHold", answer: placed, commitment: id },
    ]);
  },

  async "a malformed key is rejected and stores nothing"(scene) {
    const rooms = scene.reservations();
    for (const key of ["", "\ud83d", "k".repeat(257), "é".repeat(129), 7, undefined])
      expect(await rooms.placeHold({ ...ROOM, key: key as string })).toEqual(rejected("invalid-request"));
    for (const scope of ["", "\ud83d", "s".repeat(1_025)])
      expect(await rooms.placeHold({ ...ROOM, key: fresh(), scope })).toEqual(rejected("invalid-request"));
    expect(await readKeys(scene)).toEqual([]);
    expect((await rooms.listHeld()).rows).toEqual([]);
  },

  async "a window begins with the first use, and retries do not extend it"(scene) {
    const rooms = scene.reservations({ historyMs: 5_000 });
    const key = fresh();
    await rooms.placeHold({ ...ROOM, key });
    const [first] = await readKeys(scene);
    await scene.pass(MOMENT_MS);
    await rooms.placeHold({ ...ROOM, key });
    await rooms.placeHold({ ...ROOM, requester: "bob", key });
    expect(await readKeys(scene)).toEqual([first]);
    const recordedAt = first?.recordedAt ?? Number.NaN;
    expect(first).toMatchObject({
      windowEndsAt: recordedAt + HOUR_MS,
      keptUntil: recordedAt + HOUR_MS + 5_000,
    });
  },

  async "at the end of its window a key counts as never used"(scene) {
    const rooms = scene.actions({ windowMs: MOMENT_MS });
    const key = fresh();
    const first = await rooms.placeHold({ ...ROOM, key });
    await rooms.release({ id: first.ok ? first.id : "", key: fresh() });
    if (scene.advance !== undefined) {
      await scene.advance(MOMENT_MS - 1);
      expect(await rooms.placeHold({ ...ROOM, key })).toEqual(first);
    }
    await scene.pass(scene.advance === undefined ? MOMENT_MS : 1);
    const second = await scene.actions({}).placeHold({ ...ROOM, requester: "bob", key });
    expect(second).toEqual(PLACED);
    expect(second.ok && first.ok && second.id === first.id, "one hold").toBe(false);
    const kept = (await readKeys(scene)).filter((row) => row.key === key);
    expect(kept).toMatchObject([{ answer: second, parameters: { requester: "bob" } }]);
  },

  async "with historyMs a key returns its answer after its window, and still collides"(scene) {
    const rooms = scene.actions({ windowMs: MOMENT_MS, historyMs: HOUR_MS });
    const key = fresh();
    const first = await rooms.placeHold({ ...ROOM, key });
    await scene.pass(2 * MOMENT_MS);
    expect(await rooms.placeHold({ ...ROOM, key })).toEqual(first);
    expect(await rooms.placeHold({ ...ROOM, requester: "bob", key })).toEqual(rejected("token-collision"));
    expect((await scene.reservations().listHeld()).rows).toHaveLength(1);
  },

  async "purge removes keys past their time, up to the limit, and no other keys or commitments"(scene) {
    const { store, namespace } = scene;
    const [short, long] = [scene.actions({ windowMs: MOMENT_MS }), scene.actions({})];
    const old: string[] = [];
    for (let i = 0; i < 3; i++) old.push(await scene.hold(short, `old-${i}`));
    const kept = await scene.hold(long, "kept");
    const inHistory = await scene.hold(scene.actions({ windowMs: MOMENT_MS, historyMs: HOUR_MS }), "history");
    await scene.pass(MOMENT_MS);
    for (let more = true; more; ) {
      const report = await store.purge(1);
      expect(report.removed <= 1, "at most as many are removed as were asked for").toBe(true);
      more = report.more;
    }
    const left = (await readKeys(scene)).map(({ commitment }) => commitment);
    expect(left.sort()).toEqual([kept, inHistory].sort());
    const rows = await all((after) => store.commitments({ namespace, limit: 2, after }));
    expect(rows.map(({ id }) => id).sort()).toEqual([...old, kept, inHistory].sort());
  },
};
