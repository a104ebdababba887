/** The registry alone: capacity, units, and the states of a resource. */
import { describe, expect, test } from "vitest";
import {
  type Allotment,
  adjust,
  close,
  declare,
  giveBack,
  type Resource,
  resume,
  suspend,
  take,
  undeclared,
} from "../../src/reservations/registry.ts";

const HALL: Resource = { name: "hall", capacity: 10, taken: 4, state: "open", isDeclared: true };
const SUSPENDED: Resource = { ...HALL, state: "suspended" };
const CLOSED: Resource = { ...HALL, state: "closed" };

const toReason = (allotment: Allotment) => ("rejected" in allotment ? allotment.rejected : "none");

describe("taking", () => {
  test("takes up to the free units; a larger request is rejected, not reduced", () => {
    expect(take(HALL, 6)).toEqual({ resource: { ...HALL, taken: 10 } });
    expect(take(HALL, 7)).toEqual({
      rejected: "resource-unavailable",
      detail: "7 units were requested, and 6 of 10 are free",
    });
    expect(toReason(take({ ...HALL, taken: 10 }, 1))).toBe("resource-unavailable");
  });

  test("an undeclared resource has one unit", () => {
    const room = undeclared("room");
    expect(take(room, 1)).toEqual({ resource: { ...room, taken: 1 } });
    expect(toReason(take(room, 2))).toBe("resource-unavailable");
    expect(toReason(take({ ...room, taken: 1 }, 1))).toBe("resource-unavailable");
  });

  test("a suspended or closed resource takes no holds, even if units are free", () => {
    expect(toReason(take(SUSPENDED, 1))).toBe("pool-suspended");
    expect(toReason(take(CLOSED, 1))).toBe("pool-closed");
  });
});

describe("giving back", () => {
  test("works in every state", () => {
    for (const resource of [HALL, SUSPENDED, CLOSED])
      expect(giveBack(resource, 4)).toEqual({ ...resource, taken: 0 });
  });

  test("throws if more units are given back than are taken", () => {
    expect(() => giveBack(HALL, 5)).toThrow("cannot give back 5 units of hall: only 4 are taken");
  });
});

describe("declaring and adjusting", () => {
  test("a resource can be declared once", () => {
    const declared = { name: "hall", capacity: 5, taken: 0, state: "open", isDeclared: true };
    expect(declare(undefined, "hall", 5)).toEqual({ resource: declared });
    expect(declare(undefined, "hall", 0)).toMatchObject({ resource: { capacity: 0 } });
    expect(toReason(declare(HALL, "hall", 5))).toBe("invalid-request");
  });

  test("units taken before the declaration count", () => {
    const taken = { ...undeclared("hall"), taken: 1 };
    expect(declare(taken, "hall", 3)).toMatchObject({
      resource: { capacity: 3, taken: 1, isDeclared: true },
    });
    expect(toReason(declare(taken, "hall", 0))).toBe("units-exceeded");
  });

  test("a capacity can be reduced to the units taken, and no further", () => {
    expect(adjust(HALL, 4)).toEqual({ resource: { ...HALL, capacity: 4 } });
    expect(adjust(SUSPENDED, 40)).toEqual({ resource: { ...SUSPENDED, capacity: 40 } });
    expect(toReason(adjust(HALL, 3))).toBe("units-exceeded");
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 53, "5", undefined, null])(
    "%s is not a valid capacity",
    (capacity) => {
      expect(toReason(declare(undefined, "hall", capacity))).toBe("invalid-request");
      expect(toReason(adjust(HALL, capacity))).toBe("invalid-request");
    },
  );
});

describe("suspending, resuming and closing", () => {
  test("each changes only the state", () => {
    expect(suspend(HALL)).toEqual({ resource: SUSPENDED });
    expect(suspend(SUSPENDED)).toEqual({ resource: SUSPENDED });
    expect(resume(SUSPENDED)).toEqual({ resource: HALL });
    expect(resume(HALL)).toEqual({ resource: HALL });
    for (const resource of [HALL, SUSPENDED]) expect(close(resource)).toEqual({ resource: CLOSED });
  });

  test("an undeclared resource is not-known", () => {
    for (const act of [suspend, resume, close, (found?: Resource) => adjust(found, 2)])
      for (const found of [undefined, undeclared("hall")]) expect(toReason(act(found))).toBe("not-known");
  });

  test("a closed resource cannot be reopened", () => {
    for (const act of [suspend, resume, close, (found: Resource) => adjust(found, 99)])
      expect(toReason(act(CLOSED))).toBe("pool-closed");
  });
});
