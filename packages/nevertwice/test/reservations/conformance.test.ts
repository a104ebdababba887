/** Tests two-phase reservations, row by row: an amount is reserved of an account, then posted or voided, once. */
import { describe, expect, it } from "vitest";
import { type Desk, HOUR_MS, openDesk, placedId } from "./desk.ts";

const ACCOUNT = { resource: "account", requester: "transfer", durationMs: HOUR_MS };

async function account(capacity = 1_000): Promise<Desk & { taken(): Promise<number | undefined> }> {
  const desk = openDesk();
  await desk.desk.resources.declare({ resource: "account", capacity, key: "open" });
  return { ...desk, taken: async () => (await desk.desk.resource("account"))?.taken };
}

describe("two-phase reservations", () => {
  it("RS-01 a new id reserves the amount and posts nothing", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    expect(await taken()).toBe(123);
    expect(await desk.get(id)).toMatchObject({ state: "held", occupied: 123, confirmedUnits: undefined });
  });

  it("RS-02 the same id with the same amount is answered as created, and holds nothing more", async () => {
    const { desk, taken } = await account();
    const first = await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" });
    expect(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" })).toEqual(first);
    expect(await taken()).toBe(123);
  });

  it("RS-03 the same id with another amount is refused by the name of the field, and changes nothing", async () => {
    const { desk, taken } = await account();
    await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" });
    const answer = await desk.placeHold({ ...ACCOUNT, units: 124, key: "r" });
    expect(answer).toEqual({
      ok: false,
      reason: "token-collision",
      detail: "this key was used with another value of units; use a new one for another request",
    });
    expect(await taken()).toBe(123);
  });

  it("RS-04 less than was reserved is posted, and the rest is released", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    expect(await desk.confirm({ id, units: 100, key: "p" })).toEqual({ ok: true });
    expect(await taken()).toBe(100);
    expect(await desk.get(id)).toMatchObject({ state: "confirmed", confirmedUnits: 100 });
  });

  it("RS-05 more than was reserved is not posted", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    expect(await desk.confirm({ id, units: 124, key: "p" })).toMatchObject({
      ok: false,
      reason: "units-exceeded",
    });
    expect([(await desk.get(id))?.state, await taken()]).toEqual(["held", 123]);
  });

  it("RS-06 what was posted is neither posted nor voided again under a new id", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    await desk.confirm({ id, key: "p" });
    const refused = { ok: false, reason: "not-held", detail: "the commitment is already confirmed" };
    expect(await desk.confirm({ id, key: "p-2" })).toEqual(refused);
    expect(await desk.release({ id, key: "v" })).toEqual(refused);
    expect(await taken()).toBe(123);
  });

  it("RS-07 what was voided is not posted", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    await desk.release({ id, key: "v" });
    expect(await desk.confirm({ id, key: "p" })).toEqual({
      ok: false,
      reason: "not-held",
      detail: "the commitment is already released",
    });
    expect(await taken()).toBe(0);
  });

  it("RS-08 past its time it is not posted, and the full amount comes back", async () => {
    const { desk, clock, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    clock.advance(HOUR_MS);
    expect(await desk.confirm({ id, key: "p" })).toMatchObject({ ok: false, reason: "window-elapsed" });
    expect(await desk.sweep()).toBe(1);
    expect(await taken()).toBe(0);
    expect(await desk.confirm({ id, key: "p-2" })).toMatchObject({
      reason: "not-held",
      detail: "the commitment is already expired",
    });
  });

  it("RS-09 what would exceed the capacity is refused when it is reserved", async () => {
    const { desk, taken } = await account(100);
    await desk.placeHold({ ...ACCOUNT, units: 70, key: "r-1" });
    const answer = await desk.placeHold({ ...ACCOUNT, units: 50, key: "r-2" });
    expect(answer).toMatchObject({ ok: false, reason: "resource-unavailable" });
    expect(await taken()).toBe(70);
  });

  it("RS-10 an id that was refused for lack of capacity stays refused when there is some, and a new one is needed", async () => {
    const { desk } = await account(100);
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 70, key: "r-1" }));
    const refused = await desk.placeHold({ ...ACCOUNT, units: 50, key: "r-2" });
    await desk.release({ id, key: "v" });
    expect(await desk.placeHold({ ...ACCOUNT, units: 50, key: "r-2" })).toEqual(refused);
    expect(await desk.placeHold({ ...ACCOUNT, units: 50, key: "r-3" })).toMatchObject({ ok: true });
  });

  it("RS-11 the same resolution twice is answered as done, and done once", async () => {
    const { desk, taken } = await account();
    const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 123, key: "r" }));
    expect(await desk.confirm({ id, units: 100, key: "p" })).toEqual({ ok: true });
    expect(await desk.confirm({ id, units: 100, key: "p" })).toEqual({ ok: true });
    expect(await taken()).toBe(100);
    expect(await desk.history(id)).toHaveLength(2);
  });

  it("RS-12 of a post that races with the end of its time exactly one wins, at every instant", async () => {
    const { desk, clock, another, taken } = await account();
    for (let run = 0; run < 100; run++) {
      const id = placedId(await desk.placeHold({ ...ACCOUNT, units: 3, durationMs: 10, key: `r-${run}` }));
      clock.advance(9 + (run % 3) - 1);
      const post = () => desk.confirm({ id, key: `p-${run}` });
      const expire = () => another().expire({ id, key: `e-${run}` });
      const ends = await Promise.all(run % 2 === 0 ? [post(), expire()] : [expire(), post()]);
      clock.advance(10);
      ends.push(await desk.expire({ id, key: `late-${run}` }));
      expect(ends.filter(({ ok }) => ok)).toHaveLength(1);
      const { state, occupied } = (await desk.get(id)) ?? {};
      expect([
        ["confirmed", 3],
        ["expired", 0],
      ]).toContainEqual([state, occupied]);
      if (state === "confirmed") await desk.giveBack({ id, key: `b-${run}` });
    }
    expect(await taken()).toBe(0);
  });
});
