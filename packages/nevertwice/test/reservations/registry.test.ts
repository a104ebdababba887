/** The registry by itself: what can be held, how much of it, and who may change that. */
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

const reasonOf = (allotment: Allotment) => ("rejected" in allotment ? allotment.rejected : "none");

describe("taking", () => {
  test("up to what is free, and not one more; nothing is cut down to fit", () => {
    expect(take(HALL, 6)).toEqual({ resource: { ...HALL, taken: 10 } });
    expect(take(HALL, 7)).toEqual({
      rejected: "resource-unavailable",
      detail: "6 of 10 are free, and 7 were asked for",
    });
    expect(reasonOf(take({ ...HALL, taken: 10 }, 1))).toBe("resource-unavailable");
  });

  test("what nobody declared is one unit", () => {
    const room = undeclared("room");
    expect(take(room, 1)).toEqual({ resource: { ...room, taken: 1 } });
    expect(reasonOf(take(room, 2))).toBe("resource-unavailable");
    expect(reasonOf(take({ ...room, taken: 1 }, 1))).toBe("resource-unavailable");
  });

  test("a suspended or closed resource takes nothing, though there is room", () => {
    expect(reasonOf(take(SUSPENDED, 1))).toBe("pool-suspended");
    expect(reasonOf(take(CLOSED, 1))).toBe("pool-closed");
  });
});

describe("giving back", () => {
  test("in every state", () => {
    for (const resource of [HALL, SUSPENDED, CLOSED])
      expect(giveBack(resource, 4)).toEqual({ ...resource, taken: 0 });
  });

  test("more than is taken is a fault of ours, and is thrown", () => {
    expect(() => giveBack(HALL, 5)).toThrow("5 cannot be given back of 4 that are taken of hall");
  });
});

describe("declaring and adjusting", () => {
  test("a capacity is declared once", () => {
    const declared = { name: "hall", capacity: 5, taken: 0, state: "open", isDeclared: true };
    expect(declare(undefined, "hall", 5)).toEqual({ resource: declared });
    expect(declare(undefined, "hall", 0)).toMatchObject({ resource: { capacity: 0 } });
    expect(reasonOf(declare(HALL, "hall", 5))).toBe("invalid-request");
  });

  test("what is taken before it is declared counts", () => {
    const taken = { ...undeclared("hall"), taken: 1 };
    expect(declare(taken, "hall", 3)).toMatchObject({
      resource: { capacity: 3, taken: 1, isDeclared: true },
    });
    expect(reasonOf(declare(taken, "hall", 0))).toBe("units-exceeded");
  });

  test("a capacity is adjusted down to what is taken, and no further", () => {
    expect(adjust(HALL, 4)).toEqual({ resource: { ...HALL, capacity: 4 } });
    expect(adjust(SUSPENDED, 40)).toEqual({ resource: { ...SUSPENDED, capacity: 40 } });
    expect(reasonOf(adjust(HALL, 3))).toBe("units-exceeded");
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 53, "5", undefined, null])("%s is no capacity", (capacity) => {
    expect(reasonOf(declare(undefined, "hall", capacity))).toBe("invalid-request");
    expect(reasonOf(adjust(HALL, capacity))).toBe("invalid-request");
  });
});

describe("suspending, resuming and closing", () => {
  test("each sets the state and touches nothing else", () => {
    expect(suspend(HALL)).toEqual({ resource: SUSPENDED });
    expect(suspend(SUSPENDED)).toEqual({ resource: SUSPENDED });
    expect(resume(SUSPENDED)).toEqual({ resource: HALL });
    expect(resume(HALL)).toEqual({ resource: HALL });
    for (const resource of [HALL, SUSPENDED]) expect(close(resource)).toEqual({ resource: CLOSED });
  });

  test("what nobody declared is not known to them", () => {
    for (const act of [suspend, resume, close, (found?: Resource) => adjust(found, 2)])
      for (const found of [undefined, undeclared("hall")]) expect(reasonOf(act(found))).toBe("not-known");
  });

  test("closed is for good", () => {
    for (const act of [suspend, resume, close, (found: Resource) => adjust(found, 99)])
      expect(reasonOf(act(CLOSED))).toBe("pool-closed");
  });
});
