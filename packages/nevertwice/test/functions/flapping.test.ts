/**
 * Tests anti-flapping: which values are similar, how many changes pass, when they pass again, and what happens
 * without the window.
 */
import { describe, expect, expectTypeOf, test, vi } from "vitest";
import { type ErrorCode, NevertwiceError } from "../../src/core/errors.ts";
import {
  createFlapping,
  type FlappingEvent,
  type FlappingOptions,
  type FlappingVerdict,
  type Window,
} from "../../src/functions/flapping.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";

const WINDOW_MS = 60_000;
const failure = (code: ErrorCode, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });

function flappingOf(options: FlappingOptions = {}) {
  const clock = manualClock();
  const flapping = createFlapping({ clock, ...options });
  /** Returns whether each of these changes passes, one after the other. */
  async function passes(parameter: string, ...values: number[]): Promise<boolean[]> {
    const verdicts: boolean[] = [];
    for (const value of values) verdicts.push(!(await flapping.check(parameter, value)).flapping);
    return verdicts;
  }
  return { clock, passes, ...flapping };
}

describe("the rule", () => {
  test("lets three similar changes pass, and reports the fourth as flapping with a reason", async () => {
    const { check, clock } = flappingOf();
    expect(await check("pool.size", 20)).toEqual({ flapping: false, similar: 0 });
    clock.advance(10_000);
    expect(await check("pool.size", 20)).toEqual({ flapping: false, similar: 1 });
    clock.advance(10_000);
    expect(await check("pool.size", 20)).toEqual({ flapping: false, similar: 2 });
    clock.advance(10_500);
    expect(await check("pool.size", 20)).toEqual({
      flapping: true,
      similar: 3,
      leftMs: 29_500,
      reason:
        '"pool.size" had 3 changes to about 20 within 60 s, and at most 3 are allowed: it is flapping. Such a change passes again in 29.5 s.',
    });
  });

  test("counts a value that alternates with another", async () => {
    const { passes } = flappingOf();
    expect(await passes("pool.size", 10, 20, 10, 20, 10, 20, 10, 20, 30)).toEqual([
      true,
      true,
      true,
      true,
      true,
      true,
      false,
      false,
      true,
    ]);
  });

  test("does not record a flapping change: it does not block its value for longer", async () => {
    const { check, passes, clock } = flappingOf({ maxChanges: 1 });
    await check("a", 5);
    clock.advance(WINDOW_MS - 1);
    expect(await passes("a", 5, 5, 5)).toEqual([false, false, false]);
    clock.advance(1);
    expect(await passes("a", 5, 5)).toEqual([true, false]);
  });

  test("drops each change from the window exactly when its own time ends", async () => {
    const { check, passes, clock } = flappingOf({ maxChanges: 2 });
    await check("a", 5);
    clock.advance(1_000);
    await check("a", 5);
    clock.advance(WINDOW_MS - 1_001);
    expect(await check("a", 5)).toMatchObject({ flapping: true, leftMs: 1 });
    clock.advance(1);
    expect(await passes("a", 5, 5)).toEqual([true, false]);
    expect(await check("a", 5)).toMatchObject({ leftMs: 1_000 });
    clock.advance(1_000);
    expect(await passes("a", 5, 5)).toEqual([true, false]);
  });

  test.for([
    [100, 99, true],
    [100, 101, true],
    [100, 98.9, false],
    [100, 101.1, false],
    [-100, -99, true],
    [100, -100, false],
    [0, 0, true],
    [0, -0, true],
    [0, Number.MIN_VALUE, false],
    [-1e-9, 0, false],
    [1e-9, 1.005e-9, true],
    [Number.MAX_VALUE, -Number.MAX_VALUE, false],
    [Number.MAX_VALUE, Number.MAX_VALUE, true],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1, true],
  ] as const)("%d and %d: similar is %s, in either order", async ([a, b, isSimilar]) => {
    for (const [first, second] of [
      [a, b],
      [b, a],
    ] as const) {
      const { check } = flappingOf({ maxChanges: 1 });
      await check("a", first);
      expect((await check("a", second)).flapping).toBe(isSimilar);
    }
  });

  test("similarity is the largest relative difference that still counts as similar", async () => {
    const { check, passes } = flappingOf({ similarity: 0.5, maxChanges: 1 });
    await check("a", 10);
    expect(await passes("a", 5, 20, 4.99)).toEqual([false, false, true]);
  });

  test("gives each parameter its own window", async () => {
    const { passes } = flappingOf({ maxChanges: 1 });
    expect(await passes("a", 1, 1)).toEqual([true, false]);
    expect(await passes("b", 1, 1)).toEqual([true, false]);
    expect(await passes("__proto__", 1, 1)).toEqual([true, false]);
  });

  test("clear empties the window of one parameter, or all windows if none is named", async () => {
    const { passes, clear } = flappingOf({ maxChanges: 1 });
    await passes("a", 1);
    await passes("b", 1);
    await clear("a");
    await clear("never seen");
    expect([await passes("a", 1), await passes("b", 1)]).toEqual([[true], [false]]);
    await clear();
    expect([await passes("a", 1), await passes("b", 1)]).toEqual([[true], [true]]);
  });

  test("concurrent changes pass only up to the limit", async () => {
    const { check } = flappingOf();
    const verdicts = await Promise.all(Array.from({ length: 20 }, () => check("a", 7)));
    expect(verdicts.filter(({ flapping }) => !flapping)).toHaveLength(3);
  });

  test("a clock that goes back keeps no change for longer than the window", async () => {
    const { check, passes, clock } = flappingOf({ maxChanges: 1 });
    await passes("a", 1);
    await passes("b", 1);
    clock.advance(-3_600_000);
    expect(await check("a", 1)).toMatchObject({ flapping: true, leftMs: WINDOW_MS });
    clock.advance(WINDOW_MS);
    expect([await passes("a", 1), await passes("b", 1)]).toEqual([[true], [true]]);
  });

  test("a verdict is narrowed by its flag, and can be destructured", () => {
    expectTypeOf<FlappingVerdict["reason"]>().toEqualTypeOf<string | undefined>();
    expectTypeOf<Extract<FlappingVerdict, { flapping: true }>["reason"]>().toEqualTypeOf<string>();
  });
});

describe("the limit on memory", () => {
  test("refuses too many parameters with store-full until windows have emptied", async () => {
    const { check, clock } = flappingOf({ maxParameters: 3 });
    await check("a", 1);
    clock.advance(1);
    for (const parameter of ["b", "c"]) await check(parameter, 1);
    // Its own change keeps the first parameter's window from emptying.
    await check("a", 2);
    await expect(check("d", 1)).rejects.toEqual(failure("store-full", "maxParameters"));
    expect(await check("a", 3)).toMatchObject({ flapping: false });
    clock.advance(WINDOW_MS - 1);
    await check("a", 4);
    await expect(check("d", 1)).rejects.toEqual(failure("store-full"));
    clock.advance(1);
    expect(await check("d", 1)).toMatchObject({ flapping: false });
    expect(await check("e", 1)).toMatchObject({ flapping: false });
    await expect(check("f", 1)).rejects.toEqual(failure("store-full"));
  });

  test("clearing a parameter makes room for another", async () => {
    const { check, clear } = flappingOf({ maxParameters: 1 });
    await check("a", 1);
    await clear("a");
    expect(await check("b", 1)).toMatchObject({ flapping: false });
  });

  test("refuses too many different values of one parameter with store-full, and forgets none", async () => {
    const { check, clock } = flappingOf({ maxChanges: 1 });
    for (let i = 0; i < 1_000; i++) await check("a", 1.1 ** i);
    await expect(check("a", 0)).rejects.toEqual(failure("store-full", '"a"'));
    expect(await check("a", 1)).toMatchObject({ flapping: true });
    expect(await check("b", 0)).toMatchObject({ flapping: false });
    clock.advance(WINDOW_MS);
    expect(await check("a", 0)).toEqual({ flapping: false, similar: 0 });
  });
});

describe("an invalid value is refused by name", () => {
  test.for<[string, unknown]>([
    ["windowMs", 0],
    ["windowMs", 1.5],
    ["windowMs", "60s"],
    ["similarity", 0],
    ["similarity", -0.1],
    ["similarity", 0.51],
    ["similarity", Number.NaN],
    ["similarity", "1%"],
    ["maxChanges", 0],
    ["maxChanges", 2.5],
    ["maxChanges", 1_001],
    ["window", {}],
    ["window", null],
    ["window", { record() {} }],
    ["onUnavailable", "ignore"],
    ["storeTimeoutMs", 0],
    ["observer", {}],
    ["clock", {}],
    ["maxParameters", 0],
    ["windowSeconds", 60],
  ])("the option %s: %o", ([name, value]) => {
    expect(() => createFlapping({ [name]: value } as FlappingOptions)).toThrow(
      failure("options-invalid", name),
    );
  });

  test("accepts options at their limits", () => {
    const window: Window = { record: async () => ({ flapping: false, similar: 0 }), clear: async () => {} };
    createFlapping();
    createFlapping({ windowMs: 1, similarity: 0.5, maxChanges: 1, storeTimeoutMs: 1, maxParameters: 1 });
    createFlapping({ similarity: Number.MIN_VALUE, maxChanges: 1_000, window, onUnavailable: "proceed" });
    createFlapping({ windowMs: undefined, window: undefined });
  });

  test.for<[unknown, string]>([
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    [Number.NEGATIVE_INFINITY, "-Infinity"],
    ["20", "string"],
    [20n, "bigint"],
    [null, "null"],
    [undefined, "undefined"],
    [{ valueOf: () => 20 }, "object"],
  ])("as value: %s", async ([value, words]) => {
    const { check } = flappingOf();
    await expect(check("pool.size", value as number)).rejects.toEqual(failure("options-invalid", words));
    await expect(check("pool.size", value as number)).rejects.toEqual(
      failure("options-invalid", "pool.size"),
    );
  });

  test.for<[unknown, string]>([
    ["", "empty"],
    ["\ud800", "surrogate"],
    ["é".repeat(513), "1026 bytes"],
    [undefined, "parameter"],
    [7, "parameter"],
  ])("as parameter: %o", async ([parameter, words]) => {
    const { check, clear } = flappingOf();
    await expect(check(parameter as string, 1)).rejects.toEqual(failure("options-invalid", words));
    if (parameter !== undefined)
      await expect(clear(parameter as string)).rejects.toEqual(failure("options-invalid", words));
  });

  test("accepts a parameter of 1,024 bytes", async () => {
    expect(await flappingOf().check("é".repeat(512), 1)).toMatchObject({ flapping: false });
  });
});

/** A shared window that can be lost: it then fails with the given error, or stops answering. */
function losable() {
  const shared = { lost: undefined as unknown, records: 0 };
  const never = new Promise<never>(() => {});
  const inner = createFlapping({ clock: manualClock() });
  const answer = <T>(reply: () => Promise<T>): Promise<T> =>
    shared.lost === undefined ? reply() : shared.lost === "silent" ? never : Promise.reject(shared.lost);
  const window: Window = {
    record: ({ parameter, value }) =>
      answer(async () => {
        shared.records++;
        const { flapping, similar, leftMs } = await inner.check(parameter, value);
        return flapping ? { flapping, similar, leftMs } : { flapping, similar };
      }),
    clear: (parameter) => answer(() => inner.clear(parameter)),
  };
  return { shared, window };
}

describe("a shared window that cannot answer", () => {
  test("refuses the change with the cause, and notifies the observer", async () => {
    const { shared, window } = losable();
    const events: FlappingEvent[] = [];
    const { check } = flappingOf({ window, observer: (event) => events.push(event) });
    await check("a", 1);
    const cause = new Error("connection lost");
    shared.lost = cause;
    await expect(check("a", 1)).rejects.toMatchObject({
      code: "unavailable",
      retryable: true,
      cause,
      message: expect.stringContaining("connection lost"),
    });
    expect(events).toEqual([{ kind: "unavailable", parameter: "a", cause }]);
    shared.lost = undefined;
    expect(await check("a", 1)).toEqual({ flapping: false, similar: 1 });
  });

  test("is waited for no longer than storeTimeoutMs", async () => {
    const { shared, window } = losable();
    const { check, clear } = flappingOf({ window, storeTimeoutMs: 5 });
    shared.lost = "silent";
    const silent = { code: "unavailable", message: expect.stringContaining("within 5 ms") };
    await expect(check("a", 1)).rejects.toMatchObject(silent);
    await expect(clear("a")).rejects.toMatchObject(silent);
    await expect(clear()).rejects.toMatchObject(silent);
  });

  test('under "proceed" this process decides by the changes it has seen pass, and reports it', async () => {
    const { shared, window } = losable();
    const events: FlappingEvent[] = [];
    const { check, passes } = flappingOf({
      window,
      onUnavailable: "proceed",
      observer: (event) => events.push(event),
    });
    expect(await passes("a", 1, 1)).toEqual([true, true]);
    shared.lost = new NevertwiceError("unavailable", "Redis cannot be reached.");
    expect(await passes("a", 1, 2)).toEqual([true, true]);
    expect(await check("a", 1)).toMatchObject({ flapping: true, similar: 3 });
    const lost = [
      { kind: "unavailable", parameter: "a", cause: shared.lost },
      { kind: "proceeded", parameter: "a" },
    ];
    expect(events).toEqual([
      ...lost,
      ...lost,
      ...lost,
      expect.objectContaining({ kind: "flapping", similar: 3 }),
    ]);
    shared.lost = undefined;
    expect(await check("a", 1)).toEqual({ flapping: false, similar: 2 });
    expect(await check("a", 1)).toMatchObject({ flapping: true });
  });

  test.for(["store-full", "store-unsafe"] as const)('"proceed" does not apply to %s', async (code) => {
    const { shared, window } = losable();
    const { check } = flappingOf({ window, onUnavailable: "proceed" });
    shared.lost = new NevertwiceError(code, "no.");
    await expect(check("a", 1)).rejects.toBe(shared.lost);
    await expect(flappingOf({ window }).clear()).rejects.toBe(shared.lost);
  });

  test("a change that the shared window refused is not in this process's own window either", async () => {
    const { shared, window } = losable();
    const { check, passes } = flappingOf({ window, onUnavailable: "proceed", maxChanges: 4 });
    // The shared window allows three.
    expect(await passes("a", 1, 1, 1, 1)).toEqual([true, true, true, false]);
    shared.lost = new Error("gone");
    expect(await check("a", 1)).toEqual({ flapping: false, similar: 3 });
  });

  test("a full window of this process does not affect the shared one", async () => {
    const { shared, window } = losable();
    const { check, passes } = flappingOf({ window, onUnavailable: "proceed", maxParameters: 1 });
    expect([await passes("a", 1), await passes("b", 1)]).toEqual([[true], [true]]);
    shared.lost = new Error("gone");
    await expect(check("b", 1)).rejects.toEqual(failure("store-full"));
  });

  test("clear empties both windows, and fails if the shared one cannot be cleared", async () => {
    const { shared, window } = losable();
    const { check, passes, clear } = flappingOf({ window, onUnavailable: "proceed" });
    expect(await passes("a", 1, 1, 1, 1)).toEqual([true, true, true, false]);
    await clear("a");
    expect(await check("a", 1)).toEqual({ flapping: false, similar: 0 });
    shared.lost = new Error("gone");
    expect(await check("a", 1)).toEqual({ flapping: false, similar: 1 });
    await expect(clear("a")).rejects.toMatchObject({ code: "unavailable", cause: shared.lost });
  });
});

describe("the observer", () => {
  test("receives every flapping change with its reason", async () => {
    const observer = vi.fn();
    const { passes, check } = flappingOf({ observer, maxChanges: 1 });
    await passes("a", 1, 2);
    expect(observer).not.toHaveBeenCalled();
    const { reason } = await check("a", 2.01);
    expect(reason).toContain("had 1 change to about 2.01 within 60 s");
    expect(observer.mock.calls).toEqual([
      [{ kind: "flapping", parameter: "a", value: 2.01, similar: 1, reason }],
    ]);
  });

  test.for([
    () => {
      throw new Error("observer");
    },
    () => Promise.reject(new Error("observer")),
  ])("breaks nothing when it throws or rejects", async (observer) => {
    const { passes } = flappingOf({ observer, maxChanges: 1 });
    expect(await passes("a", 1, 1)).toEqual([true, false]);
  });
});
