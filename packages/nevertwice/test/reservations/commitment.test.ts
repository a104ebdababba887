/** Provisional Commitment by itself: every guard, every way into and out of a state, at every instant that matters. */
import { describe, expect, test } from "vitest";
import {
  type Commitment,
  confirm,
  expire,
  isElapsed,
  type Placement,
  place,
  placeable,
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

const reasonOf = (transition: Transition) => ("rejected" in transition ? transition.rejected : "none");
const after = (transition: Transition): Commitment => {
  if ("rejected" in transition) throw new Error(transition.detail);
  return transition.commitment;
};

describe("placing", () => {
  test("a request that makes sense is placeable, up to the longest time", () => {
    expect(placeable(ASKED, 100)).toBeUndefined();
    expect(placeable({ ...ASKED, durationMs: 1, units: 1 }, 100)).toBeUndefined();
  });

  test.each<[string, Record<string, unknown>]>([
    ["no resource", { resource: undefined }],
    ["a blank resource", { resource: " \n\u00a0" }],
    ["a lone surrogate in the resource", { resource: "a\ud800" }],
    ["a resource of 1,025 bytes", { resource: `${"é".repeat(512)}x` }],
    ["no requester", { requester: undefined }],
    ["an empty requester", { requester: "" }],
    ["a requester that is no text", { requester: 7 }],
    ["a requester of 1,025 bytes", { requester: "x".repeat(1_025) }],
    ["no units", { units: undefined }],
    ["zero units", { units: 0 }],
    ["negative units", { units: -1 }],
    ["half a unit", { units: 0.5 }],
    ["more units than numbers are exact", { units: 2 ** 53 }],
    ["no time", { durationMs: undefined }],
    ["zero time", { durationMs: 0 }],
    ["negative time", { durationMs: -1 }],
    ["half a millisecond", { durationMs: 0.5 }],
    ["endless time", { durationMs: Number.POSITIVE_INFINITY }],
    ["text for a time", { durationMs: "100" }],
    ["a time that is too long", { durationMs: 101 }],
  ])("%s is an invalid request", (_, wrong) => {
    const [name] = Object.keys(wrong);
    const answer = placeable({ ...ASKED, ...wrong } as Placement, 100);
    expect(answer).toEqual({ rejected: "invalid-request", detail: expect.stringContaining(String(name)) });
  });

  test("a hold has all it was asked for, and ends after its time", () => {
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

  test("names are taken as they are: nothing is trimmed or folded", () => {
    const { resource, requester } = place(
      "c-1",
      { ...ASKED, resource: " Room ", requester: "Ann\u0301" },
      NOW,
    );
    expect([resource, requester]).toEqual([" Room ", "Ann\u0301"]);
  });
});

describe("confirming", () => {
  test("all of it, or some, and only the end is new", () => {
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

  test("up to the last instant of its time, and at its end no more", () => {
    expect(reasonOf(confirm(HELD, END - 1))).toBe("none");
    expect(reasonOf(confirm(HELD, END))).toBe("window-elapsed");
    expect(reasonOf(confirm(HELD, END + 1))).toBe("window-elapsed");
  });

  test("more units than are held, or none, is refused", () => {
    expect(reasonOf(confirm(HELD, NOW, 4))).toBe("units-exceeded");
    for (const units of [0, -1, 1.5, Number.NaN, "2" as unknown as number])
      expect(reasonOf(confirm(HELD, NOW, units))).toBe("invalid-request");
  });
});

describe("releasing", () => {
  test("at any time until it has ended", () => {
    for (const now of [NOW, END - 1, END, END + 1_000])
      expect(after(release(HELD, now))).toEqual({ ...HELD, state: "released", endedAt: now });
  });
});

describe("expiring", () => {
  test("from the end of its time on, and not before", () => {
    expect(reasonOf(expire(HELD, END - 1))).toBe("window-not-elapsed");
    for (const now of [END, END + 1])
      expect(after(expire(HELD, now))).toEqual({ ...HELD, state: "expired", endedAt: now });
  });
});

describe("every end", () => {
  const ends = { confirm, release, expire };

  test.each(Object.entries(ends))("%s of what is not there is not known", (_, act) => {
    expect(reasonOf(act(undefined, NOW))).toBe("not-known");
  });

  test.each(Object.entries(ends))("%s of what has ended is refused, whatever the time", (_, act) => {
    for (const ended of ENDED)
      for (const now of [NOW, END, END + 1]) expect(reasonOf(act(ended, now))).toBe("not-held");
  });

  test("that has ended comes before that its time is over, and before its units", () => {
    const [confirmed] = ENDED;
    expect(reasonOf(confirm(confirmed, END + 1, 99))).toBe("not-held");
    expect(reasonOf(confirm(HELD, END, 99))).toBe("window-elapsed");
  });

  test("at every instant exactly one of confirm and expire is possible", () => {
    for (let now = NOW; now < END + 50; now++) {
      const possible = [confirm(HELD, now), expire(HELD, now)].filter((end) => "commitment" in end);
      expect(possible).toHaveLength(1);
      expect("commitment" in expire(HELD, now)).toBe(isElapsed(HELD, now));
    }
  });

  test("no sequence of actions leaves an end, and what it was placed with never changes", () => {
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
