/** Tests how the store learns that an attempt ended, including what is sent twice and what is never sent. */
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };
const START_FENCE = 1_700_000_000_000_000;

test("counts the running time of the work from its claim", async () => {
  const scene = createScene();
  await scene.advance(500);
  await scene.settle(scene.guard.run(request, () => scene.sleep(70)));
  expect(scene.events.at(-1)).toMatchObject({ kind: "completed", fence: START_FENCE + 500_000, ranMs: 70 });
});

test("counts retentionFrom claim from the claim, and leaves at least a millisecond", async () => {
  const scene = createScene({ retentionFrom: "claim", retentionMs: 100 });
  const kept: number[] = [];
  const store: Store = {
    ...scene.inner,
    complete(completion) {
      kept.push(completion.retentionMs);
      return scene.inner.complete(completion);
    },
  };
  const guard = scene.another({ store });
  await scene.advance(5_000);
  await scene.settle(guard.run({ ...request, key: "short" }, () => scene.sleep(40.5)));
  await scene.settle(guard.run({ ...request, key: "long" }, () => scene.sleep(300)));
  expect(kept).toEqual([60, 1]);
});

test("reports abandoned and not-kept with their fence, and an unanswered completion with its cause", async () => {
  const scene = createScene({ completeWaitMs: 20 });
  await expect(scene.guard.run(request, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(scene.events.at(-1)).toMatchObject({ kind: "abandoned", fence: START_FENCE, as: "released" });
  await scene.guard.run({ ...request, key: "order-2" }, () => () => {});
  expect(scene.events.at(-1)).toMatchObject({ kind: "not-kept", fence: START_FENCE + 1 });
  scene.store.plan("complete", "refuse");
  await scene.guard.run({ ...request, key: "order-3" }, () => 3);
  expect(scene.events.find(({ kind }) => kind === "unavailable")).toMatchObject({
    during: "complete",
    cause: { message: "faulty store: complete was refused" },
  });
});

test("reports work that throws after it was overtaken as lease-lost, not as abandoned", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.run(request, () => scene.sleep(300).then(() => Promise.reject(new Error("late"))));
  late.catch(() => {});
  await scene.advance(150);
  const second = scene.another().run(request, () => scene.sleep(500));
  await expect(scene.settle(late)).rejects.toThrow("late");
  const keyHash = expect.any(String);
  expect(scene.events.filter(({ kind }) => kind !== "renewed")).toEqual([
    { kind: "claimed", operation: "charge", keyHash, fence: START_FENCE, number: 1 },
    { kind: "lease-lost", operation: "charge", keyHash, fence: START_FENCE, reason: "not-renewed" },
    { kind: "lapsed", operation: "charge", keyHash },
    { kind: "taken-over", operation: "charge", keyHash, fence: START_FENCE + 150_000, number: 2 },
    { kind: "lease-lost", operation: "charge", keyHash, fence: START_FENCE, reason: "overtaken" },
  ]);
  await scene.settle(second);
});

test("reports a late completion that was overtaken with the late attempt's fence", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.run(request, () => scene.sleep(300));
  await scene.advance(150);
  await scene.another().run(request, () => "second");
  await scene.settle(late);
  expect(scene.events.at(-1)).toMatchObject({ kind: "lease-lost", fence: START_FENCE, reason: "overtaken" });
});

test("late-writer: does not return the outcome of another request to the late caller", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.tryRun({ ...request, fingerprint: { amount: 1 } }, () =>
    scene.sleep(300).then(() => "one"),
  );
  await scene.advance(150);
  // An operator forgets the record, so that the same key may be used for another request.
  const second = scene.another();
  expect(await second.forget(request)).toBe(true);
  expect(await second.run({ ...request, fingerprint: { amount: 2 } }, () => "two")).toBe("two");
  expect(await scene.settle(late)).toEqual({ status: "lease-lost", value: "one" });
});

test("a completion that is refused although its own outcome is stored counts as recorded", async () => {
  const scene = createScene();
  const store: Store = {
    ...scene.inner,
    complete: (completion) => scene.inner.complete(completion).then(() => false),
  };
  expect(await scene.another({ store }).tryRun(request, () => "mine")).toEqual({
    status: "ran",
    value: "mine",
    recorded: true,
  });
  expect(scene.kinds()).toEqual(["claimed", "completed"]);
});

test("a completeWaitMs of one millisecond waits for a store that answers at once", async () => {
  const { guard } = createScene({ completeWaitMs: 1 });
  expect(await guard.tryRun(request, () => 1)).toEqual({ status: "ran", value: 1, recorded: true });
});

test("does not complete twice when a repeated grant arrives while the work runs", async () => {
  const { another, inner, settle, sleep, advance, kinds } = createScene();
  const calls = { claim: 0, complete: 0 };
  const store: Store = {
    ...inner,
    async claim(claim) {
      const isFirst = calls.claim++ === 0;
      const answer = await inner.claim(claim);
      if (isFirst) await sleep(100);
      return answer;
    },
    complete(completion) {
      calls.complete++;
      return inner.complete(completion);
    },
  };
  const guard = another({ store, storeTimeoutMs: 20 });
  // The first claim times out at 20 ms, and its answer arrives at 100 ms, while the second one's work runs.
  expect(await settle(guard.run(request, () => sleep(500).then(() => "mine")))).toBe("mine");
  await advance(1_000);
  expect(calls).toEqual({ claim: 2, complete: 1 });
  expect(kinds()).toEqual(["claimed", "completed"]);
});

test("proceed: work that fails without a claim reports no lost lease to the observer", async () => {
  const { guard, store, settle, kinds } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  await expect(settle(guard.run(request, () => Promise.reject(new Error("no"))))).rejects.toThrow("no");
  expect(kinds()).toEqual(["unavailable", "proceeded"]);
});

test("proceed: reports a possible duplicate once, however often the store is called", async () => {
  const scene = createScene({ onUnavailable: "proceed" });
  await scene
    .another()
    .run(request, () => Promise.reject(new Error("first")))
    .catch(() => {});
  for (let i = 0; i < 3; i++) scene.store.plan("claim", "refuse");
  for (let i = 0; i < 3; i++) scene.store.plan("complete", "refuse");
  await scene.settle(scene.guard.run(request, () => "mine"));
  await scene.advance(5_000);
  expect(scene.kinds()).toEqual([
    "claimed",
    "abandoned",
    "unavailable",
    "proceeded",
    "possible-duplicate",
    "unavailable",
    "completed",
  ]);
});

/** A guard that proceeds at 150 ms, and whose claim after the work is applied and answered only at 250 ms. */
function proceedThenClaimLate(scene: ReturnType<typeof createScene>) {
  const { inner, sleep } = scene;
  const calls = { claim: 0, complete: 0 };
  const store: Store = {
    ...inner,
    claim(claim) {
      const call = ++calls.claim;
      if (call <= 3) return Promise.reject(new Error("away"));
      return call === 4 ? sleep(100).then(() => inner.claim(claim)) : inner.claim(claim);
    },
    complete(completion) {
      return ++calls.complete === 1 ? Promise.reject(new Error("away")) : inner.complete(completion);
    },
  };
  const guard = scene.another({ store, onUnavailable: "proceed", completeWaitMs: 20, leaseMs: 60_000 });
  return { guard, calls };
}

test("proceed: retries the completion of a claim that is granted after its timeout until the store answers", async () => {
  const scene = createScene();
  const owner = scene
    .another()
    .run(request, () => scene.sleep(200).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  await scene.advance(1);
  const { guard, calls } = proceedThenClaimLate(scene);
  expect(await scene.settle(guard.tryRun(request, () => "mine"))).toEqual({
    status: "ran",
    value: "mine",
    recorded: false,
  });
  await scene.advance(2_000);
  expect(calls).toEqual({ claim: 5, complete: 2 });
  expect(await guard.tryRun(request, () => "again")).toEqual({ status: "replayed", value: "mine" });
});

test("proceed: a claim that is refused after its timeout completes nothing", async () => {
  const scene = createScene();
  const owner = scene.another().run(request, () => scene.sleep(1_000).then(() => "owner's"));
  await scene.advance(1);
  const { guard, calls } = proceedThenClaimLate(scene);
  await scene.settle(guard.tryRun(request, () => "mine"));
  expect(await scene.settle(owner)).toBe("owner's");
  expect(calls).toEqual({ claim: 5, complete: 0 });
});

test("throws a failure to its caller after the store has confirmed that the key is free", async () => {
  const { another, inner, sleep, settle, world } = createScene();
  const store: Store = { ...inner, abandon: (abandon) => sleep(30).then(() => inner.abandon(abandon)) };
  const run = another({ store }).run(request, () => Promise.reject(new Error("no")));
  await expect(settle(run)).rejects.toThrow("no");
  expect(world.now()).toBe(30);
});

test("proceed: work whose key another attempt holds has run, and is reported as unrecorded", async () => {
  const { guard, another, store, sleep, settle, advance, events } = createScene({ onUnavailable: "proceed" });
  const owner = another().run(request, () => sleep(1_000).then(() => "owner's"));
  await advance(1);
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  expect(await settle(guard.tryRun(request, () => "mine"))).toEqual({
    status: "ran",
    value: "mine",
    recorded: false,
  });
  expect(events.filter(({ kind }) => kind === "possible-duplicate")).toMatchObject([
    { reason: "the key was pending" },
  ]);
  expect(await settle(owner)).toBe("owner's");
});
