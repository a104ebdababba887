/** Tests retuning while the guard runs: work in flight keeps its windows, and later calls use the new ones. */
import { expect, onTestFinished, test } from "vitest";
import { guardFromEnv, windowsFromEnv } from "../../src/env/index.ts";
import type { Store } from "../../src/index.ts";
import { createScene } from "../core/scene.ts";

test("windowsFromEnv returns the windows that a guard would start with", () => {
  const defaults = { leaseMs: 30_000, retentionMs: 86_400_000, markRetentionMs: 60_000 };
  expect(windowsFromEnv({})).toEqual(defaults);
  expect(windowsFromEnv({ NEVERTWICE_LEASE: "5s", NEVERTWICE_MARK_RETENTION: "1h" })).toEqual({
    ...defaults,
    leaseMs: 5_000,
    markRetentionMs: 3_600_000,
  });
  // A variable that is no longer set leaves the value of the code, as a restart would.
  const options = { leaseMs: 7_000, retentionMs: 8_000, namespace: "shop" };
  expect(windowsFromEnv({ NEVERTWICE_RETENTION: "1m" }, options)).toEqual({
    ...defaults,
    leaseMs: 7_000,
    retentionMs: 60_000,
  });
});

test("a reload with a mistake changes nothing", async () => {
  const guard = await guardFromEnv({ NEVERTWICE_LEASE: "40s" });
  onTestFinished(async () => void (await guard.close()));
  const before = guard.policy;
  for (const wrong of [{ NEVERTWICE_LEASE: "50" }, { NEVERTWICE_LAESE: "50s" }, { NEVERTWICE_LEASE: "1ms" }])
    expect(() => guard.retune(windowsFromEnv({ NEVERTWICE_RETENTION: "1h", ...wrong }))).toThrow(
      /NEVERTWICE_L/,
    );
  expect(guard.policy).toEqual(before);
});

test("running work renews with the lease it started with; a later call claims with the new one", async () => {
  const { guard, advance, sleep, settle } = createScene({ leaseMs: 30_000 });
  const request = { operation: "charge", key: "running" };
  const running = guard.run(request, async () => {
    await sleep(25_000);
    return "done";
  });
  await advance(5_000);
  guard.retune(windowsFromEnv({ NEVERTWICE_LEASE: "3s" }));
  const next = guard.run({ ...request, key: "next" }, () => sleep(500));
  await advance(100);
  expect((await guard.read({ ...request, key: "next" }))?.leaseLeftMs).toBe(2_900);
  // Renewed at a third of thirty seconds, for thirty more.
  await advance(6_900);
  expect((await guard.read(request))?.leaseLeftMs).toBeGreaterThan(27_000);
  await settle(next);
  expect(await settle(running)).toBe("done");
});

test("an outcome is kept for the retention its call started with; the next one for the new retention", async () => {
  const retentions: number[] = [];
  const wrapStore = (store: Store): Store => ({
    ...store,
    complete(completion) {
      retentions.push(completion.retentionMs);
      return store.complete(completion);
    },
  });
  const guard = await guardFromEnv({ NEVERTWICE_RETENTION: "1h" }, { wrapStore });
  onTestFinished(async () => void (await guard.close()));
  await guard.run({ operation: "charge", key: "running" }, () => {
    guard.retune(windowsFromEnv({ NEVERTWICE_RETENTION: "2h", NEVERTWICE_MARK_RETENTION: "5m" }));
  });
  await guard.run({ operation: "charge", key: "next" }, () => {});
  expect(retentions).toEqual([3_600_000, 7_200_000]);
  expect(guard.policy.markRetentionMs).toBe(300_000);
});
