/** Cases of reservation stores: capacity, units and the states of a resource. */
import { containing, expect } from "./expectation.ts";
import { fresh, HOUR_MS, OK, PLACED, type ReservationCases, rejected } from "./scene.ts";

export const registry: ReservationCases = {
  async "a resource is declared once, with a capacity that is never oversold"(scene) {
    const { reservations, hold } = scene;
    const { resources, placeHold, resource, release } = reservations();
    expect(await resource("hall")).toBe(undefined);
    expect(await resources.declare({ resource: "hall", capacity: 10, key: fresh() })).toEqual(OK);
    expect(await resource("hall")).toMatchObject({
      name: "hall",
      capacity: 10,
      taken: 0,
      state: "open",
      isDeclared: true,
    });
    expect(await resources.declare({ resource: "hall", capacity: 20, key: fresh() })).toEqual(
      rejected("invalid-request"),
    );
    const id = await hold(reservations(), "hall", { units: 7 });
    const more = { resource: "hall", requester: "bob", durationMs: HOUR_MS };
    expect(await placeHold({ ...more, units: 4, key: fresh() })).toEqual(rejected("resource-unavailable"));
    expect((await resource("hall"))?.taken).toBe(7);
    expect(await placeHold({ ...more, units: 3, key: fresh() })).toEqual(PLACED);
    expect((await resource("hall"))?.taken).toBe(10);
    await release({ id, key: fresh() });
    expect((await resource("hall"))?.taken).toBe(3);
  },

  async "a hold is confirmed in part, the rest is free again, and confirmed units are given back in parts"(
    scene,
  ) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "hall", capacity: 10, key: fresh() });
    const taken = async () => (await rooms.resource("hall"))?.taken;
    const id = await hold(rooms, "hall", { units: 6 });
    const act = { id, key: "" };
    expect(await rooms.giveBack({ ...act, key: fresh() })).toEqual(rejected("invalid-request"));
    expect(await rooms.confirm({ ...act, units: 7, key: fresh() })).toEqual(rejected("units-exceeded"));
    expect(await rooms.confirm({ ...act, units: 0, key: fresh() })).toEqual(rejected("invalid-request"));
    expect([(await rooms.get(id))?.state, await taken()]).toEqual(["held", 6]);
    expect(await rooms.confirm({ ...act, units: 4, key: fresh() })).toEqual(OK);
    expect(await rooms.get(id)).toMatchObject({
      state: "confirmed",
      units: 6,
      confirmedUnits: 4,
      occupied: 4,
    });
    expect(await taken()).toBe(4);
    expect(await rooms.giveBack({ ...act, units: 5, key: fresh() })).toEqual(rejected("units-exceeded"));
    expect(await rooms.giveBack({ ...act, units: 1.5, key: fresh() })).toEqual(rejected("invalid-request"));
    expect(await rooms.giveBack({ ...act, units: 1, key: fresh() })).toEqual(OK);
    expect(await taken()).toBe(3);
    expect(await rooms.giveBack({ ...act, key: fresh() })).toEqual(OK);
    expect(await rooms.get(id)).toMatchObject({ state: "confirmed", confirmedUnits: 4, occupied: 0 });
    expect(await taken()).toBe(0);
    expect(await rooms.giveBack({ ...act, key: fresh() })).toEqual(rejected("units-exceeded"));
  },

  async "a capacity can be adjusted, but never below the units taken"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const adjust = (capacity: number) => rooms.resources.adjust({ resource: "hall", capacity, key: fresh() });
    expect(await adjust(5)).toEqual(rejected("not-known"));
    await rooms.resources.declare({ resource: "hall", capacity: 3, key: fresh() });
    await hold(rooms, "hall", { units: 2 });
    for (const capacity of [-1, 1.5, Number.NaN])
      expect(await adjust(capacity)).toEqual(rejected("invalid-request"));
    expect(await adjust(1)).toEqual(rejected("units-exceeded"));
    expect(await rooms.resource("hall")).toMatchObject({ capacity: 3, taken: 2 });
    expect(await adjust(2)).toEqual(OK);
    expect(await adjust(8)).toEqual(OK);
    await hold(rooms, "hall", { units: 6 });
    expect(await rooms.resource("hall")).toMatchObject({ capacity: 8, taken: 8 });
  },

  async "a suspended resource takes no new holds until it is resumed, and its holds can still end"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const on = { resource: "hall" };
    const ask = { ...on, requester: "bob", durationMs: HOUR_MS };
    expect(await rooms.resources.suspend({ ...on, key: fresh() })).toEqual(rejected("not-known"));
    await rooms.resources.declare({ ...on, capacity: 3, key: fresh() });
    const [kept, freed] = [await hold(rooms, "hall"), await hold(rooms, "hall")];
    expect(await rooms.resources.suspend({ ...on, key: fresh() })).toEqual(OK);
    expect(await rooms.resource("hall")).toMatchObject({ state: "suspended" });
    expect(await rooms.placeHold({ ...ask, key: fresh() })).toEqual(rejected("pool-suspended"));
    expect(await rooms.confirm({ id: kept, key: fresh() })).toEqual(OK);
    expect(await rooms.release({ id: freed, key: fresh() })).toEqual(OK);
    expect(await rooms.resources.resume({ ...on, key: fresh() })).toEqual(OK);
    expect(await rooms.placeHold({ ...ask, key: fresh() })).toEqual(PLACED);
  },

  async "a closed resource stays closed, and its holds can still end"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    const on = { resource: "hall" };
    await rooms.resources.declare({ ...on, capacity: 2, key: fresh() });
    const [kept, freed] = [await hold(rooms, "hall"), await hold(rooms, "hall")];
    expect(await rooms.resources.close({ ...on, key: fresh() })).toEqual(OK);
    const ask = { ...on, requester: "bob", durationMs: HOUR_MS, key: fresh() };
    expect(await rooms.placeHold(ask)).toEqual(rejected("pool-closed"));
    for (const act of [rooms.resources.suspend, rooms.resources.resume, rooms.resources.close])
      expect(await act({ ...on, key: fresh() })).toEqual(rejected("pool-closed"));
    expect(await rooms.resources.adjust({ ...on, capacity: 9, key: fresh() })).toEqual(
      rejected("pool-closed"),
    );
    expect(await rooms.confirm({ id: kept, key: fresh() })).toEqual(OK);
    expect(await rooms.release({ id: freed, key: fresh() })).toEqual(OK);
    expect(await rooms.giveBack({ id: kept, key: fresh() })).toEqual(OK);
    expect(await rooms.resource("hall")).toMatchObject({ state: "closed", taken: 0 });
  },

  async "units held before the declaration count, and a capacity may be 0"(scene) {
    const { reservations, hold } = scene;
    const rooms = reservations();
    await hold(rooms, "hall");
    expect(await rooms.resource("hall")).toMatchObject({ capacity: 1, taken: 1, isDeclared: false });
    const declare = (capacity: number, resource = "hall") =>
      rooms.resources.declare({ resource, capacity, key: fresh() });
    expect(await declare(0)).toEqual(rejected("units-exceeded"));
    expect(await declare(2)).toEqual(OK);
    expect(await rooms.resource("hall")).toMatchObject({ capacity: 2, taken: 1, isDeclared: true });
    expect(await declare(0, "none")).toEqual(OK);
    const ask = { resource: "none", requester: "bob", durationMs: HOUR_MS, key: fresh() };
    expect(await rooms.placeHold(ask)).toEqual(rejected("resource-unavailable"));
    expect(await rooms.placeHold({ ...ask, resource: "new", units: 2, key: fresh() })).toEqual(
      rejected("resource-unavailable"),
    );
    for (const resource of ["", "  ", "\udfff"])
      expect(await declare(1, resource)).toEqual(rejected("invalid-request"));
  },

  async "the largest numbers are stored exactly"(scene) {
    const { reservations } = scene;
    const most = Number.MAX_SAFE_INTEGER;
    const rooms = reservations();
    expect(await rooms.resources.declare({ resource: "ether", capacity: most, key: fresh() })).toEqual(OK);
    const ask = {
      resource: "ether",
      requester: "ann",
      durationMs: 31_622_400_000,
      units: most - 1,
      key: fresh(),
    };
    const answer = await rooms.placeHold(ask);
    expect(await rooms.placeHold({ ...ask, units: 2, key: fresh() })).toEqual(
      rejected("resource-unavailable"),
    );
    expect(await rooms.resource("ether")).toMatchObject({ capacity: most, taken: most - 1 });
    const id = answer.ok ? answer.id : "";
    expect(await rooms.confirm({ id, units: most - 2, key: fresh() })).toEqual(OK);
    expect(await rooms.get(id)).toMatchObject({
      units: most - 1,
      confirmedUnits: most - 2,
      occupied: most - 2,
    });
  },

  async "available is called inside the transaction, or rejected by createReservations with a reason"(scene) {
    const { store, reservations } = scene;
    const seen: unknown[] = [];
    const available = (asked: unknown) => seen.push(asked) > 1;
    if (store.refusesAvailable !== undefined) {
      let refusal = "nothing was thrown";
      try {
        reservations({ available });
      } catch (error) {
        refusal = String(error);
      }
      expect(refusal).toEqual(containing(store.refusesAvailable));
      return;
    }
    const rooms = reservations({ available });
    const ask = { resource: "room", requester: "ann", durationMs: HOUR_MS, units: 1, key: fresh() };
    expect(await rooms.placeHold(ask)).toEqual(rejected("resource-unavailable"));
    expect(await rooms.placeHold(ask)).toEqual(rejected("resource-unavailable"));
    expect(seen).toMatchObject([{ resource: { name: "room", taken: 0 }, requester: "ann", units: 1 }]);
    expect(await rooms.placeHold({ ...ask, key: fresh() })).toEqual(PLACED);
    expect(seen).toHaveLength(2);
  },
};
