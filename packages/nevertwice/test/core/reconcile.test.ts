/** Tests that reconcile is called for a held claim, and what follows from its decision. */
import { expect, test } from "vitest";
import type { Decision } from "../../src/core/policy.ts";
import type { Store } from "../../src/core/store.ts";
import { claimStore, createScene, lapse } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("reconcile leaves no lease and no running work behind", async () => {
  for (const status of ["done", "not-done", "unknown"] as const) {
    const scene = createScene({ onLapsed: "hold", leaseMs: 300 });
    await lapse(scene, request);
    const reconcile = () => scene.sleep(150).then(() => ({ status, value: 1 }) as Decision);
    await scene.settle(scene.guard.tryRun({ ...request, reconcile }, () => 1));
    expect(scene.store.calls.renew).toBe(1);
    await scene.advance(5_000);
    expect(scene.store.calls.renew).toBe(1);
    const closedFrom = scene.world.now();
    expect(await scene.settle(scene.guard.close())).toEqual([]);
    expect(scene.world.now()).toBe(closedFrom);
  }
});

test("a reconcile that never ends is reported by close, and its signal fires", async () => {
  const scene = createScene({ onLapsed: "hold", drainMs: 100 });
  await lapse(scene, request);
  const reasons: unknown[] = [];
  const reconcile = ({ signal }: { signal: AbortSignal }) =>
    new Promise<never>(() => signal.addEventListener("abort", () => reasons.push(signal.reason)));
  scene.guard.tryRun({ ...request, reconcile }, () => 1).catch(() => {});
  await scene.advance(1);
  expect(await scene.settle(scene.guard.close())).toHaveLength(1);
  expect(reasons).toEqual(["guard-closed"]);
});

test("a reconcile that returns done with a value that cannot be stored still completes the key", async () => {
  const scene = createScene({ onLapsed: "hold", maxOutcomeBytes: 100 });
  await lapse(scene, request);
  const reconcile = async () => ({ status: "done", value: "x".repeat(200) }) as const;
  expect(await scene.guard.tryRun({ ...request, reconcile }, () => 1)).toEqual({
    status: "not-kept",
    reason: "too-large",
  });
});

test("a reconcile whose claim goes to another attempt decides nothing", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene, request);
  const other = scene.another();
  let asked = 0;
  const { store } = claimStore(scene.inner, async (count, claim) => {
    // Another guard decides between the claim that was answered `unknown` and the claim for reconcile.
    if (count === 2) await other.resolve({ ...request, fence }, { status: "done", value: "decided" });
    return scene.inner.claim(claim);
  });
  const reconcile = async () => {
    asked++;
    return { status: "not-done" } as const;
  };
  expect(await scene.another({ store }).tryRun({ ...request, reconcile }, () => "never")).toEqual({
    status: "replayed",
    value: "decided",
  });
  expect(asked).toBe(0);
});

test("reconcile decides before its caller is answered, even if the caller does not wait", async () => {
  for (const [decision, method, result] of [
    [{ status: "done", value: "found" }, "complete", { status: "replayed", value: "found" }],
    [{ status: "not-done" }, "abandon", { status: "ran", value: "work", recorded: true }],
  ] as const) {
    const scene = createScene({ onLapsed: "hold", onPending: "reject" });
    const fence = await lapse(scene, request);
    const { inner, sleep } = scene;
    const slow: Pick<Store, "complete" | "abandon"> = {
      complete: (completion) => sleep(30).then(() => inner.complete(completion)),
      abandon: (abandon) => sleep(30).then(() => inner.abandon(abandon)),
    };
    const guard = scene.another({ store: { ...inner, [method]: slow[method] } });
    const fences: number[] = [];
    const reconcile = async (held: { readonly fence: number }) => {
      fences.push(held.fence);
      return decision;
    };
    expect(await scene.settle(guard.tryRun({ ...request, reconcile }, () => "work"))).toEqual(result);
    expect(fences).toEqual([fence + 1]);
    expect(scene.kinds().slice(0, 3)).toEqual(["claimed", "abandoned", "lapsed"]);
    expect(scene.events[3]).toMatchObject(
      method === "complete"
        ? { kind: "completed", fence: fence + 1 }
        : { kind: "abandoned", fence: fence + 1, as: "released" },
    );
  }
});
