/** Tests how work chooses what is kept and for how long: `keepIf` and `attempt.keepFor`, of ending.ts and settlement.ts. */
import { describe, expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";

const ORDER = { operation: "charge", key: "order-1" };

function scene() {
  const clock = manualClock();
  return { clock, guard: createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 }) };
}

describe("a value that is not to be kept", () => {
  test("is returned, and the next call runs the work again", async () => {
    const { guard } = scene();
    const states = ["processing", "done", "never"];
    const request = { ...ORDER, keepIf: (state: string) => state === "done" };
    const call = () => guard.tryRun(request, () => states.shift() as string);
    expect(await call()).toEqual({ status: "ran", value: "processing", recorded: true });
    expect(await call()).toEqual({ status: "ran", value: "done", recorded: true });
    expect(await call()).toEqual({ status: "replayed", value: "done" });
  });

  test("of a wrapped function is chosen by its options", async () => {
    const { guard } = scene();
    let runs = 0;
    const look = guard.wrap(async (_id: string) => ++runs, {
      operation: "look",
      key: (id) => id,
      keepIf: (n) => n > 1,
    });
    expect([await look("a"), await look("a"), await look("a")]).toEqual([1, 2, 2]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["returns a promise", async () => false],
    ["returns nothing", () => undefined],
  ])("is kept if the function %s: the work is done", async (_, keepIf) => {
    const { guard } = scene();
    let runs = 0;
    for (const _each of [1, 2])
      await guard.run({ ...ORDER, keepIf: keepIf as unknown as () => boolean }, () => ++runs);
    expect(runs).toBe(1);
  });
});

test("a wrapped function shortens a value that is too large", async () => {
  const { guard } = scene();
  const options = {
    operation: "report",
    key: (id: string) => id,
    maxOutcomeBytes: 100,
    shorten: () => "too long",
  };
  const report = guard.wrap(async (_id: string) => "x".repeat(1_000), options);
  expect(await report("a")).toBe("x".repeat(1_000));
  expect(await report("a")).toBe("too long");
});

describe("a retention that the work chooses", () => {
  test("counts for this outcome, and the last choice counts", async () => {
    const { guard, clock } = scene();
    let runs = 0;
    const call = () =>
      guard.run(ORDER, (attempt) => {
        attempt.keepFor(5);
        attempt.keepFor(1_000);
        return ++runs;
      });
    await call();
    clock.advance(999);
    expect(await call()).toBe(1);
    clock.advance(1);
    expect(await call()).toBe(2);
  });

  test("can be longer than the guard's", async () => {
    const { guard, clock } = scene();
    const call = () =>
      guard.run({ ...ORDER, retentionMs: 10 }, (attempt) => {
        attempt.keepFor(1_000);
        return clock.now();
      });
    const first = await call();
    clock.advance(999);
    expect(await call()).toBe(first);
  });

  test.each([0, -1, 1.5, Number.NaN, 4e15])("cannot be %d", async (ms) => {
    const { guard } = scene();
    await expect(guard.run(ORDER, (attempt) => attempt.keepFor(ms))).rejects.toThrow(
      "options-invalid: keepFor(ms)",
    );
  });
});

describe("a fingerprint", () => {
  test("takes a member that is undefined for an absent one", async () => {
    const { guard } = scene();
    const call = (fingerprint: unknown) => guard.tryRun({ ...ORDER, fingerprint }, () => 1);
    await call({ amount: 5, note: undefined, more: { b: undefined, a: 1 } });
    expect(await call({ more: { a: 1 }, amount: 5 })).toEqual({ status: "replayed", value: 1 });
    expect(await call({ more: { a: 1, b: null }, amount: 5 })).toMatchObject({ status: "conflict" });
    await expect(call([undefined])).rejects.toThrow("fingerprint-invalid: fingerprint.0 is undefined");
  });
});
