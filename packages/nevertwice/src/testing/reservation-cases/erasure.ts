/** Cases of reservation stores: the requester is erased from commitments that are over, and nothing else changes. */

import type { AuditData } from "../../reservations/index.ts";
import { expect } from "./expectation.ts";
import { all, fresh, HOUR_MS, MOMENT_MS, OK, type ReservationCases } from "./scene.ts";

const offenders = ({ invariants }: AuditData) => invariants.flatMap((one) => one.offenders);

export const erasure: ReservationCases = {
  async "erases the requester of ended commitments, leaves holds, and the audit and an anchor stay satisfied"(
    scene,
  ) {
    const { store, namespace, reservations, hold, pass } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 10, key: fresh() });
    const confirmed = await hold(rooms, "hall", { requester: "ann", units: 2 });
    const released = await hold(rooms, "hall", { requester: "ann" });
    const expired = await hold(rooms, "hall", { requester: "ann", durationMs: MOMENT_MS });
    const held = await hold(rooms, "hall", { requester: "ann" });
    const other = await hold(rooms, "hall", { requester: "bob" });
    expect(await rooms.confirm({ id: confirmed, key: fresh() })).toEqual(OK);
    for (const id of [released, other]) expect(await rooms.release({ id, key: fresh() })).toEqual(OK);
    await pass(MOMENT_MS);
    expect(await rooms.expire({ id: expired, key: fresh() })).toEqual(OK);
    const anchor = await rooms.anchor();

    expect(await rooms.erase({ requester: "ann" })).toEqual({ erased: 3, held: 1, more: false });
    expect(await rooms.erase({ requester: "ann" })).toEqual({ erased: 0, held: 1, more: false });

    for (const id of [confirmed, released, expired]) {
      expect(await rooms.get(id)).toMatchObject({ requester: "", requesterSalt: "", isErased: true });
      const kinds = (await rooms.history(id)).map(({ kind }) => kind);
      expect([kinds[0], kinds.at(-1), kinds.length]).toEqual(["placed", "erased", 3]);
    }
    expect(await rooms.get(held)).toMatchObject({ requester: "ann", isErased: false });
    expect(await rooms.get(other)).toMatchObject({ requester: "bob", isErased: false });
    expect((await rooms.byRequester("ann")).rows.map(({ id }) => id)).toEqual([held]);
    expect((await rooms.byResource("hall")).rows.filter(({ isErased }) => isErased)).toHaveLength(3);
    const keys = await all((after) => store.keys({ namespace, limit: 100, after }));
    const named = keys.filter(({ parameters }) => parameters.requester === "ann");
    expect(named.map(({ commitment }) => commitment)).toEqual([held]);
    const events = await all((after) => store.events({ namespace, limit: 100, after }));
    expect(JSON.stringify(events).includes('ann"'), "the events name the requester").toBe(false);
    expect(await rooms.giveBack({ id: confirmed, units: 1, key: fresh() })).toEqual(OK);
    for (const options of [{}, { anchor }]) {
      const report = await rooms.audit(options);
      expect(offenders(report)).toEqual([]);
      expect(report.ok).toBe(true);
    }
    expect(await rooms.doubles({ withinMs: HOUR_MS })).toMatchObject({ count: 0 });
  },

  async "a duplicate of a key whose requester was erased gets its outcome, and another request is refused"(
    scene,
  ) {
    const { reservations } = scene;
    const rooms = reservations();
    const request = { resource: "room", requester: "ann", durationMs: HOUR_MS, key: fresh() };
    const placed = await rooms.placeHold(request);
    if (!placed.ok) throw new Error(placed.detail);
    const release = { id: placed.id, key: fresh() };
    expect(await rooms.release(release)).toEqual(OK);
    expect(await rooms.erase({ requester: "ann" })).toMatchObject({ erased: 1 });
    expect(await rooms.placeHold(request)).toEqual(placed);
    expect(await rooms.release(release)).toEqual(OK);
    expect(await rooms.placeHold({ ...request, units: 2 })).toEqual({
      ok: false,
      reason: "token-collision",
      detail: "this key was used with another value of units; use a new one for another request",
    });
    expect(await rooms.placeHold({ ...request, requester: "eve" })).toMatchObject({
      detail: "this key was used with another value of requester; use a new one for another request",
    });
    expect((await rooms.audit()).ok).toBe(true);
  },

  async "erases up to limit at once, says that more are left, and continues"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    for (const resource of ["a", "b", "c"]) {
      const id = await hold(rooms, resource);
      expect(await rooms.release({ id, key: fresh() })).toEqual(OK);
    }
    const erase = () => rooms.erase({ requester: "ann", limit: 2 });
    expect([await erase(), await erase(), await erase()]).toEqual([
      { erased: 2, held: 0, more: true },
      { erased: 1, held: 0, more: false },
      { erased: 0, held: 0, more: false },
    ]);
    expect((await rooms.audit()).ok).toBe(true);
  },

  async "erases a commitment whose key was recorded again after its window, and leaves the new recording"(
    scene,
  ) {
    const { store, namespace, reservations, actions, pass } = scene;
    const [rooms, brief] = [reservations(), actions({ windowMs: MOMENT_MS })];
    const request = { resource: "room", requester: "ann", durationMs: HOUR_MS, key: fresh() };
    const first = await brief.placeHold(request);
    if (!first.ok) throw new Error(first.detail);
    expect(await rooms.release({ id: first.id, key: fresh() })).toEqual(OK);
    await pass(MOMENT_MS);
    const second = await rooms.placeHold(request);
    if (!second.ok) throw new Error(second.detail);
    expect(second.id === first.id, "one hold").toBe(false);
    expect(await rooms.erase({ requester: "ann" })).toEqual({ erased: 1, held: 1, more: false });
    const { rows } = await store.keys({ namespace, commitment: second.id, limit: 10 });
    expect(rows.map(({ parameters }) => parameters.requester)).toEqual(["ann"]);
    const report = await rooms.audit({ windowsMs: [HOUR_MS, MOMENT_MS] });
    expect(offenders(report)).toEqual([]);
  },

  async "erases a commitment whose key is purged meanwhile, and leaves no trace of the key"(scene) {
    const { store, namespace, reservations, actions, hold, pass } = scene;
    const id = await hold(actions({ windowMs: MOMENT_MS }), "room");
    expect(await reservations().release({ id, key: fresh() })).toEqual(OK);
    let isFirst = true;
    const slow: typeof store = {
      ...store,
      async keys(query) {
        const page = await store.keys(query);
        if (query.id !== undefined && isFirst) {
          isFirst = false;
          await pass(MOMENT_MS);
          while ((await store.purge(1_000)).more);
        }
        return page;
      },
    };
    expect(await reservations({ store: slow }).erase({ requester: "ann" })).toMatchObject({ erased: 1 });
    expect(isFirst).toBe(false);
    const page = await store.keys({ namespace, limit: 10 });
    expect(page.unreadable).toBe(undefined);
    expect(page.rows.map(({ action }) => action).sort()).toEqual(["erase", "release"]);
    const report = await reservations().audit({ windowsMs: [HOUR_MS, MOMENT_MS] });
    expect(offenders(report)).toEqual([]);
  },

  async "two calls at the same time erase each commitment once"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const id = await hold(rooms, "room");
    expect(await rooms.release({ id, key: fresh() })).toEqual(OK);
    const both = await Promise.all([
      rooms.erase({ requester: "ann" }),
      reservations().erase({ requester: "ann" }),
    ]);
    expect(both.reduce((sum, { erased }) => sum + erased, 0)).toBe(1);
    expect((await rooms.history(id)).map(({ kind }) => kind)).toEqual(["placed", "released", "erased"]);
    expect(offenders(await rooms.audit())).toEqual([]);
  },

  async "refuses a requester that is empty and a limit that is not valid"(scene) {
    const { reservations } = scene;
    const rooms = reservations();
    for (const request of [
      { requester: "" },
      { requester: "ann", limit: 0 },
      { requester: "ann", limit: 1_001 },
    ])
      expect(await rooms.erase(request).catch((error) => error)).toMatchObject({ code: "options-invalid" });
  },
};
