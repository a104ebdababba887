/** Provisional Commitment alone: every check and every transition, at every time that matters. */
import { describe, expect, test } from "vitest";
import {
  type Commitment,
  confirm,
  expire,
  isElapsed,
  type Placement,
  place,
  placementProblem,
  release,
  type Transition,
} from "../../src/reservations/commitment.ts";

const NOW = 1_000_000;
const ASKED: Placement = { resource: "room", requester: "ann", units: 3, durationMs: 100 };
const HELD = place("c-1", ASKED, NOW);
const END = HELD.expiresAt;
const ENDED = (["confirmed", "released", "expired"] as const).map((state) => ({
  ...HELD,
  state,
  endedAt: NOW,
}));

const toReason = (transition: Transition) => ("rejected" in transition ? transition.rejected : "none");
const after = (transition: Transition): Commitment => {
  if ("rejected" in transition) throw new Error(transition.detail);
  return transition.commitment;
};

describe("placing", () => {
  test("a valid request can be placed, up to the longest duration", () => {
    expect(placementProblem(ASKED, 100)).toBeUndefined();
    expect(placementProblem({ ...ASKED, durationMs: 1, units: 1 }, 100)).toBeUndefined();
  });

  test.each<[string, Record<string, unknown>]>([
    ["no resource", { resource: undefined }],
    ["a blank resource", { resource: " \n\u00a0" }],
    ["a lone surrogate in the resource", { resource: "a\ud800" }],
    ["a resource of 1,025 bytes", { resource: `${"é".repeat(512)}x` }],
    ["no requester", { requester: undefined }],
    ["an empty requester", { requester: "" }],
    ["a requester that is not a string", { requester: 7 }],
    ["a requester of 1,025 bytes", { requester: "x".repeat(1_025) }],
    ["no units", { units: undefined }],
    ["zero units", { units: 0 }],
    ["negative units", { units: -1 }],
    ["half a unit", { units: 0.5 }],
    ["more units than a safe integer", { units: 2 ** 53 }],
    ["no duration", { durationMs: undefined }],
    ["zero duration", { durationMs: 0 }],
    ["negative duration", { durationMs: -1 }],
    ["half a millisecond", { durationMs: 0.5 }],
    ["infinite duration", { durationMs: Number.POSITIVE_INFINITY }],
    ["a string as duration", { durationMs: "100" }],
    ["a duration that is too long", { durationMs: 101 }],
  ])("%s is an invalid request", (_, wrong) => {
    const [name] = Object.keys(wrong);
    const answer = placementProblem({ ...ASKED, ...wrong } as Placement, 100);
    expect(answer).toEqual({ rejected: "invalid-request", detail: expect.stringContaining(String(name)) });
  });

  test("a hold has the requested values and expires after its duration", () => {
    expect(HELD).toEqual({
      id: "c-1",
      resource: "room",
      requester: "ann",
      units: 3,
      placedAt: NOW,
      expiresAt: NOW + 100,
      state: "held",
      endedAt: undefined,
      confirmedUnits: undefined,
    });
  });

  test("names are stored unchanged: nothing is trimmed or case-folded", () => {
    const { resource, requester } = place(
      "c-1",
      { ...ASKED, resource: " Room ", requester: "Ann\u0301" },
      NOW,
    );
    expect([resource, requester]).toEqual([" Room ", "Ann\u0301"]);
  });
});

describe("confirming", () => {
  test("confirms all units or some, and changes nothing but the end", () => {
    expect(after(confirm(HELD, NOW))).toEqual({
      ...HELD,
      state: "confirmed",
      endedAt: NOW,
      confirmedUnits: 3,
    });
    expect(after(confirm(HELD, NOW + 5, 2))).toEqual({
      ...HELD,
      state: "confirmed",
      endedAt: NOW + 5,
      confirmedUnits: 2,
    });
  });

  test("works until expiresAt, and no longer at expiresAt", () => {
    expect(toReason(confirm(HELD, END - 1))).toBe("none");
    expect(toReason(confirm(HELD, END))).toBe("window-elapsed");
    expect(toReason(confirm(HELD, END + 1))).toBe("window-elapsed");
  });

  test("rejects more units than are held, and zero units", () => {
    expect(toReason(confirm(HELD, NOW, 4))).toBe("units-exceeded");
    for (const units of [0, -1, 1.5, Number.NaN, "2" as unknown as number])
      expect(toReason(confirm(HELD, NOW, units))).toBe("invalid-request");
  });
});

describe("releasing", () => {
  test("works at any time until the hold has ended", () => {
    for (const now of [NOW, END - 1, END, END + 1_000])
      expect(after(release(HELD, now))).toEqual({ ...HELD, state: "released", endedAt: now });
  });
});

describe("expiring", () => {
  test("works from expiresAt on, and not earlier", () => {
    expect(toReason(expire(HELD, END - 1))).toBe("window-not-elapsed");
    for (const now of [END, END + 1])
      expect(after(expire(HELD, now))).toEqual({ ...HELD, state: "expired", endedAt: now });
  });
});

describe("every end", () => {
  const ends = { confirm, release, expire };

  test.each(Object.entries(ends))("%s of an unknown commitment is not-known", (_, act) => {
    expect(toReason(act(undefined, NOW))).toBe("not-known");
  });

  test.each(Object.entries(ends))("%s of an ended commitment is not-held at any time", (_, act) => {
    for (const ended of ENDED)
      for (const now of [NOW, END, END + 1]) expect(toReason(act(ended, now))).toBe("not-held");
  });

  test("is rejected with not-held before its time and its units are checked", () => {
    const [confirmed] = ENDED;
    expect(toReason(confirm(confirmed, END + 1, 99))).toBe("not-held");
    expect(toReason(confirm(HELD, END, 99))).toBe("window-elapsed");
  });

  test("at every time exactly one of confirm and expire is possible", () => {
    for (let now = NOW; now < END + 50; now++) {
      const possible = [confirm(HELD, now), expire(HELD, now)].filter((end) => "commitment" in end);
      expect(possible).toHaveLength(1);
      expect("commitment" in expire(HELD, now)).toBe(isElapsed(HELD, now));
    }
  });

  test("no sequence of actions changes an ended commitment, or the values it was placed with", () => {
    const acts = Object.values(ends);
    for (const first of acts)
      for (const second of acts)
        for (const third of acts) {
          let current = HELD;
          let changes = 0;
          for (const [step, act] of [first, second, third].entries()) {
            const transition = act(current, END - 1 + step);
            if (!("commitment" in transition)) continue;
            changes++;
            current = transition.commitment;
          }
          const { state, endedAt, confirmedUnits, ...placed } = current;
          expect(changes).toBeLessThanOrEqual(1);
          expect({ ...placed, state: "held", endedAt: undefined, confirmedUnits: undefined }).toEqual(HELD);
          expect(state === "held" ? endedAt === undefined : (endedAt ?? 0) >= HELD.placedAt).toBe(true);
          expect(confirmedUnits !== undefined).toBe(state === "confirmed");
        }
  });
});
