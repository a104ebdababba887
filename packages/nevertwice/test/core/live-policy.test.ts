/** Tests windows that are changed while the guard is in use. */
import { expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "k" };

test("a call after retune uses the new window, and records stored before it keep theirs", async () => {
  const { guard, advance } = createScene({ retentionMs: 10_000 });
  await guard.run({ ...request, key: "before" }, () => 1);
  guard.retune({ retentionMs: 100 });
  await guard.run({ ...request, key: "after" }, () => 1);
  await advance(200);
  expect(await guard.run({ ...request, key: "before" }, () => 2)).toBe(1);
  expect(await guard.run({ ...request, key: "after" }, () => 2)).toBe(2);
});

test("running work keeps the lease it was claimed with", async () => {
  const { guard, sleep, settle, store } = createScene({ leaseMs: 300 });
  const running = guard.run(request, () => sleep(300).then(() => "done"));
  await settle(sleep(10));
  guard.retune({ leaseMs: 30_000 });
  expect(await settle(running)).toBe("done");
  expect(store.calls.renew).toBe(2);
});

test("guards made by with inherit the options they do not set, before and after retune, and keep those they set", () => {
  const { guard } = createScene({ retentionMs: 10_000, leaseMs: 1_000 });
  const other = guard.with({ retentionMs: 5_000 });
  const third = other.with({ waitMs: 7 });
  guard.retune({ retentionMs: 1, leaseMs: 2_000 });
  expect(guard.policy).toMatchObject({ retentionMs: 1, leaseMs: 2_000 });
  expect(other.policy).toMatchObject({ retentionMs: 5_000, leaseMs: 2_000 });
  expect(third.policy).toMatchObject({ retentionMs: 5_000, leaseMs: 2_000, waitMs: 7 });
  other.retune({ retentionMs: 6_000 });
  expect(guard.policy.retentionMs).toBe(1);
  expect(third.policy.retentionMs).toBe(6_000);
});

test("leaves an undefined option unchanged", () => {
  const { guard } = createScene({ retentionMs: 10_000 });
  guard.retune({ retentionMs: undefined, waitMs: 3 });
  expect(guard.policy).toMatchObject({ retentionMs: 10_000, waitMs: 3 });
});

test.each<[options: object, message: RegExp]>([
  [{ retentionMs: 0 }, /retentionMs is 0/],
  [{ leaseMs: "30s" }, /leaseMs is "30s"/],
  [{ onUnavailable: "proceed" }, /no option called "onUnavailable"/],
  [{ retention: 5 }, /no option called "retention"/],
])("refuses retune(%j) and changes nothing", (options, message) => {
  const { guard } = createScene();
  const before = guard.policy;
  expect(() => guard.retune({ waitMs: 1, ...options })).toThrow(message);
  expect(guard.policy).toEqual(before);
});

test("applies the new windows to a guard from createGuard and to the functions it wrapped", async () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const charge = guard.wrap((id: string) => id, { operation: "charge", keyFrom: [0] });
  guard.retune({ retentionMs: 1 });
  expect(guard.policy.retentionMs).toBe(1);
  await charge("a");
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(await guard.read({ operation: "charge", key: "a" })).toBeUndefined();
  await guard.close();
});

test("the store's own limit still applies after a retune", () => {
  const guard = createGuard({ store: { ...memoryStore(), maxOutcomeBytes: 500 }, purgeEveryMs: 0 });
  guard.retune({ waitMs: 1 });
  expect(guard.policy.maxOutcomeBytes).toBe(500);
});
