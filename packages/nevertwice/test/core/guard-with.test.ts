/** Tests a guard with changed policies, and values that are stored in shortened form. */
import { expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "k" };

test("guard.policy returns the guard's policy, with the store's limit where that is lower", () => {
  const store = { ...memoryStore(), maxOutcomeBytes: 1_000 };
  const guard = createGuard({ store, purgeEveryMs: 0, retentionMs: 5_000 });
  expect(guard.policy).toMatchObject({ retentionMs: 5_000, onPending: "wait", maxOutcomeBytes: 1_000 });
});

test("guard.with changes the options it names, keeps the others, and leaves the original guard unchanged", async () => {
  const { guard } = createScene({ retentionMs: 7_000 });
  const rejecting = guard.with({ onCompleted: "reject" });
  await guard.run(request, () => "done");
  expect(rejecting.policy.retentionMs).toBe(7_000);
  expect(await rejecting.tryRun(request, () => "again")).toEqual({ status: "already-done" });
  expect(await guard.tryRun(request, () => "again")).toEqual({ status: "replayed", value: "done" });
});

test("guard.with refuses invalid policies, and policies that contradict each other", () => {
  const { guard } = createScene({ onLapsed: "hold" });
  expect(() => guard.with({ store: memoryStore() } as object)).toThrow(/no option called "store"/);
  expect(() => guard.with({ onUnavailable: "proceed" })).toThrow(/contradict/);
});

test("closing a guard closes the guards made from it", async () => {
  const { guard } = createScene();
  const other = guard.with({ waitMs: 1 });
  await guard.close();
  await expect(other.run(request, () => 1)).rejects.toMatchObject({ code: "guard-closed" });
});

test("a guard from createGuard still wraps functions after with", async () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 }).with({ retentionMs: 9_000 });
  const twice = guard.wrap((n: number) => n * 2, { operation: "double", key: (n) => String(n) });
  expect(await twice(4)).toBe(8);
});

test("stores a value that is too large as shorten returns it, and gives the first caller the whole value", async () => {
  const { guard, kinds } = createScene({ maxOutcomeBytes: 100 });
  const shorten = ({ id }: { id: number }) => ({ id });
  const large = { id: 7, text: "x".repeat(200) };
  expect(await guard.run({ ...request, shorten }, () => large)).toBe(large);
  expect(await guard.tryRun(request, () => large)).toEqual({ status: "replayed", value: { id: 7 } });
  expect(kinds()).toContain("not-kept");
});

test("does not shorten a value that fits", async () => {
  const { guard } = createScene();
  await guard.run({ ...request, shorten: () => "short" }, () => "whole");
  expect(await guard.run(request, () => "again")).toBe("whole");
});

test.each<[what: string, shorten: () => unknown]>([
  [
    "throws",
    () => {
      throw new Error("no");
    },
  ],
  ["returns nothing smaller", () => "y".repeat(200)],
  ["returns a value that cannot be encoded", () => Symbol("no")],
])("a shorten that %s leaves the record done without an outcome", async (_, shorten) => {
  const { guard } = createScene({ maxOutcomeBytes: 100 });
  await guard.run({ ...request, shorten }, () => "x".repeat(200));
  expect(await guard.tryRun(request, () => "again")).toEqual({ status: "not-kept", reason: "too-large" });
});
