/** Tests the specification's domain examples and adversarial scenarios, by their names. */
import { describe, expect, test } from "vitest";
import { tally } from "../../src/testing/reservation-cases/scene.ts";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId, SECOND_MS } from "./desk.ts";

describe("examples", () => {
  test("Banking — credit-hold authorization with retry: the cardholder is charged once", async () => {
    const { desk, store, clock, another } = openDesk();
    await desk.resources.declare({ resource: "card-4242", capacity: 1_000_00, key: "limit-2026" });
    const request = {
      resource: "card-4242",
      requester: "merchant-7",
      units: 250_00,
      durationMs: 7 * 24 * HOUR_MS,
      key: "BizMsgIdr-20260101-0042",
      scope: "acquirer-1",
    };
    store.plan("reply-lost");
    const id = placedId(await desk.placeHold(request));
    clock.advance(4 * SECOND_MS);
    expect(await another().placeHold(request)).toEqual({ ok: true, id });
    expect((await desk.resource("card-4242"))?.taken).toBe(250_00);
    expect(await desk.confirm({ id, units: 230_00, key: "capture-0042", scope: "acquirer-1" })).toEqual({
      ok: true,
    });
    expect(await another().confirm({ id, units: 230_00, key: "capture-0042", scope: "acquirer-1" })).toEqual({
      ok: true,
    });
    expect((await desk.resource("card-4242"))?.taken).toBe(230_00);
    expect((await desk.history(id)).map(({ kind }) => kind)).toEqual(["placed", "confirmed"]);
  });

  test("Healthcare — bed assignment with double-click: one bed, one patient, one record", async () => {
    const { desk, clock, another } = openDesk();
    const click = {
      resource: "bed_307",
      requester: "patient_p41",
      durationMs: 2 * HOUR_MS,
      key: "session-9/assign-1",
    };
    const first = desk.placeHold(click);
    clock.advance(800);
    const answers = await Promise.all([first, another().placeHold(click)]);
    expect(answers[1]).toEqual(answers[0]);
    const id = placedId(answers[0]);
    expect((await desk.byRequester("patient_p41")).rows.map((row) => row.id)).toEqual([id]);
    expect(await desk.history(id)).toHaveLength(1);
  });

  test("Retail — inventory reservation with mobile retry: reserved once, or one and the same rejection", async () => {
    const { desk, another } = openDesk();
    const tap = (shopper: string) => ({
      resource: "sku-one-of-one",
      requester: shopper,
      durationMs: 15 * MINUTE_MS,
      key: `${shopper}/cart-1/sku-one-of-one`,
    });
    const shoppers = ["ann", "bob", "cid", "dee"];
    const desks = [desk, another(), another()];
    const answers = await Promise.all(
      shoppers.map((shopper) => Promise.all(desks.map((server) => server.placeHold(tap(shopper))))),
    );
    for (const ofOne of answers) expect(new Set(ofOne.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(tally(answers.map(([answer]) => answer as (typeof answers)[number][number]))).toEqual({
      ok: 1,
      "resource-unavailable": 3,
    });
    expect((await desk.byResource("sku-one-of-one")).rows).toHaveLength(1);
    const winner = answers.findIndex(([answer]) => answer?.ok);
    await desk.release({ id: placedId((answers[winner] ?? [])[0] as never), key: "changed my mind" });
    for (const [i, shopper] of shoppers.entries())
      expect(await desk.placeHold(tap(shopper))).toEqual(answers[i]?.[0]);
  });

  test("Airline — seat hold with session replay: an hour is replayed, and no seat is held twice", async () => {
    const { desk, clock, another } = openDesk({ windowMs: HOUR_MS });
    const seats = Array.from({ length: 60 }, (_, minute) => ({
      resource: `LH400/${minute % 40}`,
      requester: `passenger-${minute}`,
      durationMs: 24 * HOUR_MS,
      key: `agency/${minute}`,
    }));
    const answers: unknown[] = [];
    for (const seat of seats) {
      answers.push(await desk.placeHold(seat));
      clock.advance(MINUTE_MS);
    }
    // The keys of the first minutes are past their window, and one of their seats is free again.
    clock.advance(5 * MINUTE_MS);
    const [first, second] = (await desk.byRequester("passenger-0")).rows.concat(
      (await desk.byRequester("passenger-1")).rows,
    );
    await desk.release({ id: String(first?.id), key: "desk/1" });
    const replayed = await Promise.all(seats.map((seat) => another().placeHold(seat)));
    expect(replayed.slice(6)).toEqual(answers.slice(6));
    expect(replayed[0]).toMatchObject({ ok: true });
    expect(replayed[0]).not.toEqual(answers[0]);
    expect(replayed[1]).toMatchObject({ ok: false, reason: "resource-unavailable" });
    expect(await desk.get(String(second?.id))).toMatchObject({ state: "held" });
    const held = (await desk.listHeld()).rows.map(({ resource }) => resource);
    expect(held).toHaveLength(40);
    expect(new Set(held).size).toBe(40);
  });
});

describe("regulated adversarial scenarios", () => {
  const CHARGE = { resource: "card-1", requester: "ann", durationMs: HOUR_MS };

  test("Regulator audit — show me every double-charge: within the window there is none", async () => {
    const { desk, another, store, clock } = openDesk();
    await desk.resources.declare({ resource: "card-1", capacity: 10, key: "declare" });
    for (const key of ["order-1", "order-2", "order-3"]) {
      await Promise.all([desk, another(), desk].map((server) => server.placeHold({ ...CHARGE, key })));
      clock.advance(SECOND_MS);
    }
    // The query of the specification: commitments of one resource and requester that were placed close together.
    const { rows } = await desk.byResource("card-1");
    expect(rows).toHaveLength(3);
    const placedBy = await Promise.all(
      rows.map(async ({ id }) => {
        const keys = (await store.keys({ namespace: NAMESPACE, commitment: id, limit: 9 })).rows;
        return keys.map(({ key }) => key);
      }),
    );
    expect(placedBy.flat().sort()).toEqual(["order-1", "order-2", "order-3"]);
  });

  test("Disputed transaction — you charged me twice: the keys tell a retry from two orders", async () => {
    const { desk, store } = openDesk();
    await desk.resources.declare({ resource: "card-1", capacity: 10, key: "declare" });
    const one = await desk.placeHold({ ...CHARGE, key: "same" });
    expect(await desk.placeHold({ ...CHARGE, key: "same" })).toEqual(one);
    const other = await desk.placeHold({ ...CHARGE, key: "a new one for each try" });
    expect(placedId(other)).not.toBe(placedId(one));
    const keys = (await store.keys({ namespace: NAMESPACE, limit: 9 })).rows.filter(
      ({ action }) => action === "placeHold",
    );
    expect(new Map(keys.map(({ key, commitment }) => [key, commitment]))).toEqual(
      new Map([
        ["same", placedId(one)],
        ["a new one for each try", placedId(other)],
      ]),
    );
  });

  test("Replay attack — an adversary captures and replays a key: nothing changes within the window", async () => {
    const { desk, another, clock, store } = openDesk();
    const id = placedId(await desk.placeHold({ ...CHARGE, key: "hold" }));
    await desk.release({ id, key: "release" });
    const before = await store.events({ namespace: NAMESPACE, limit: 99 });
    const adversary = another();
    expect(await adversary.placeHold({ ...CHARGE, key: "hold" })).toEqual({ ok: true, id });
    expect(await adversary.release({ id, key: "release" })).toEqual({ ok: true });
    expect(await store.events({ namespace: NAMESPACE, limit: 99 })).toEqual(before);
    // After the window it is a new request: keys do not authorise callers.
    clock.advance(10 * MINUTE_MS);
    expect(placedId(await adversary.placeHold({ ...CHARGE, key: "hold" }))).not.toBe(id);
  });

  test("Token reuse collision — a caller reuses a key across two operations: refused, and nothing happens", async () => {
    const { desk } = openDesk();
    const room = { resource: "room_307", requester: "guest_g91", durationMs: 24 * HOUR_MS, key: "idem_x73a" };
    const id = placedId(await desk.placeHold(room));
    const collision = await desk.confirm({ id, key: "idem_x73a" });
    expect(collision).toEqual({
      ok: false,
      reason: "token-collision",
      detail: "this key was used for placeHold; use a new one for confirm",
    });
    expect(await desk.get(id)).toMatchObject({ state: "held", events: 1 });
    expect(await desk.placeHold(room)).toEqual({ ok: true, id });
    expect(await desk.confirm({ id, key: "idem_y22" })).toEqual({ ok: true });
  });
});
