/** Tests work whose outcome is unknown: it is held, listed, and decided once. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };
const hold = { onLapsed: "hold", leaseMs: 100 } as const;

/** A guard whose attempt dies during its work: it has claimed the key, and nothing follows. */
async function dieInMidWork(scene: ReturnType<typeof createScene>): Promise<void> {
  const dying = scene.another({
    store: { ...scene.inner, renew: () => new Promise(() => {}), complete: () => new Promise(() => {}) },
  });
  dying.run(request, () => new Promise(() => {})).catch(() => {});
  await scene.advance(200);
}

test("a held claim that lapsed is not taken over: callers get unknown with its fence", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  let runs = 0;
  const result = await scene.guard.tryRun(request, () => runs++);
  const view = await scene.guard.read(request);
  expect(result).toEqual({ status: "unknown", fence: view?.fence });
  await expect(scene.guard.run(request, () => runs++)).rejects.toMatchObject({
    code: "unknown",
    retryable: false,
    fence: view?.fence,
  });
  expect(runs).toBe(0);
  expect(view).toMatchObject({ state: "lapsed", held: true, number: 1 });
});

test("no other guard takes over a held claim, whatever its policy and however long it takes", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  await scene.advance(3_650 * 86_400_000);
  expect(await scene.another({ onLapsed: "takeover" }).tryRun(request, () => 1)).toMatchObject({
    status: "unknown",
  });
});

test("listUnknown lists lapsed claims page by page, and resolve decides one as done", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const { records, next } = await scene.guard.listUnknown({ scope: "alice", limit: 1 });
  expect(next).toBeUndefined();
  expect(records).toMatchObject([
    { operation: "charge", scope: "alice", key: "order-1", state: "lapsed", held: true },
  ]);
  expect(JSON.stringify(records)).not.toContain("token");
  const fence = records[0]?.fence ?? 0;
  expect(
    await scene.settle(scene.guard.resolve({ ...request, fence }, { status: "done", value: { receipt: 7 } })),
  ).toBe(true);
  expect(await scene.guard.tryRun(request, () => "never")).toEqual({
    status: "replayed",
    value: { receipt: 7 },
  });
  expect((await scene.guard.listUnknown()).records).toEqual([]);
});

test("resolve failed: replays the error; resolve not-done: frees the key, and the work runs", async () => {
  for (const decision of [
    { status: "failed", error: new RangeError("declined") },
    { status: "not-done" },
  ] as const) {
    const scene = createScene(hold);
    await dieInMidWork(scene);
    const fence = (await scene.guard.read(request))?.fence ?? 0;
    expect(await scene.settle(scene.guard.resolve({ ...request, fence }, decision))).toBe(true);
    const next = scene.guard.run(request, ({ number }) => number);
    if (decision.status === "failed")
      await expect(next).rejects.toMatchObject({ name: "RangeError", message: "declined" });
    else expect(await next).toBe(3);
  }
});

test("a stale decision returns false: for another fence, a decided key, a concurrent decision, an absent key", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const fence = (await scene.guard.read(request))?.fence ?? 0;
  const decide = (subject: typeof request, given: number) =>
    scene.settle(scene.guard.resolve({ ...subject, fence: given }, { status: "done", value: 1 }));
  expect(await decide(request, fence + 1)).toBe(false);
  expect(await decide({ ...request, key: "absent" }, fence)).toBe(false);
  const both = [scene.guard, scene.another()].map((guard) =>
    guard.resolve({ ...request, fence }, { status: "not-done" }),
  );
  expect((await scene.settle(Promise.all(both))).sort()).toEqual([false, true]);
  expect(await decide(request, fence)).toBe(false);
});

test("resolve refuses an invalid decision, or one that cannot be stored, before it changes anything", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const fence = (await scene.guard.read(request))?.fence ?? 0;
  const resolve = scene.guard.resolve as (subject: object, decision: unknown) => Promise<boolean>;
  for (const [subject, decision] of [
    [{ ...request, fence }, { status: "maybe" }],
    [{ ...request, fence }, undefined],
    [
      { ...request, fence },
      { status: "done", value: () => {} },
    ],
    [request, { status: "not-done" }],
  ] as const) {
    await expect(resolve(subject, decision)).rejects.toMatchObject({ code: "options-invalid" });
  }
  expect((await scene.guard.read(request))?.fence).toBe(fence);
});

test("resolve refuses an outcome that is larger than the store's limit", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const fence = (await scene.guard.read(request))?.fence ?? 0;
  const limited = scene.another({ store: { ...scene.inner, maxOutcomeBytes: 64 } });
  const decision = { status: "done", value: "x".repeat(100) } as const;
  await expect(limited.resolve({ ...request, fence }, decision)).rejects.toMatchObject({
    code: "options-invalid",
  });
});

test("resolve throws unavailable when its decision is not confirmed, and the decision is retried in the background", async () => {
  const scene = createScene({ ...hold, completeWaitMs: 20 });
  await dieInMidWork(scene);
  const fence = (await scene.guard.read(request))?.fence ?? 0;
  scene.store.plan("complete", "hang");
  await expect(
    scene.settle(scene.guard.resolve({ ...request, fence }, { status: "done", value: 1 })),
  ).rejects.toMatchObject({ code: "unavailable" });
  await scene.advance(10_000);
  expect(await scene.guard.tryRun(request, () => 2)).toEqual({ status: "replayed", value: 1 });
});

test("reconcile is called once, under its own claim, while others wait; done is replayed to all", async () => {
  const scene = createScene({ ...hold, waitMs: 5_000 });
  await dieInMidWork(scene);
  let asked = 0;
  const reconcile = async () => {
    asked++;
    await scene.sleep(250);
    return { status: "done", value: "found at the bank" } as const;
  };
  const calls = Array.from({ length: 5 }, () => scene.another({ reconcile }).run(request, () => "never"));
  expect(await scene.settle(Promise.all(calls))).toEqual(new Array(5).fill("found at the bank"));
  expect(asked).toBe(1);
});

test("reconcile not-done: runs the work; failed: remembers the error", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const guard = scene.another({ reconcile: async () => ({ status: "not-done" }) });
  expect(await scene.settle(guard.tryRun(request, ({ number }) => number))).toMatchObject({
    status: "ran",
    value: 3,
  });

  const other = createScene(hold);
  await dieInMidWork(other);
  const failing = other.another({
    reconcile: async () => ({ status: "failed", error: new Error("declined") }),
  });
  await expect(other.settle(failing.run(request, () => 1))).rejects.toThrow("declined");
});

test("a reconcile that returns unknown or throws leaves the key unknown and held", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  for (const reconcile of [
    async () => ({ status: "unknown" }) as const,
    () => Promise.reject(new Error("bank is down")),
  ]) {
    let runs = 0;
    expect(await scene.settle(scene.another({ reconcile }).tryRun(request, () => runs++))).toMatchObject({
      status: "unknown",
    });
    expect(runs).toBe(0);
    expect(await scene.guard.read(request)).toMatchObject({ state: "lapsed", held: true });
  }
});

test("reconcile receives the identity and the same derived keys as the work", async () => {
  const scene = createScene(hold);
  await dieInMidWork(scene);
  const seen: unknown[] = [];
  const guard = scene.another({
    reconcile: async ({ parts, deriveKey, signal, number }) => {
      seen.push(parts, deriveKey("psp"), signal.aborted, number);
      return { status: "not-done" };
    },
  });
  await scene.settle(guard.run(request, (attempt) => seen.push(attempt.deriveKey("psp"))));
  expect(seen[0]).toEqual({ namespace: "scene", scope: "alice", operation: "charge", key: "order-1" });
  expect(seen[4]).toBe(seen[1]);
  expect(seen.slice(2, 4)).toEqual([false, 2]);
});

test("a waiter on a held claim gets unknown as soon as the claim lapses", async () => {
  const scene = createScene({ ...hold, waitMs: 60_000 });
  const dying = scene.another({ store: { ...scene.inner, renew: () => new Promise(() => {}) } });
  dying.run(request, () => new Promise(() => {})).catch(() => {});
  await scene.advance(10);
  expect(await scene.settle(scene.guard.tryRun(request, () => 1))).toMatchObject({ status: "unknown" });
  expect(scene.world.now()).toBeLessThan(150);
});
