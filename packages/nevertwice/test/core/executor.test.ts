/** Tests the control flow of one call where waiting, closing, cancelling and proceeding meet. */
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { claimStore, createScene, lapse } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };
const START_FENCE = 1_700_000_000_000_000;

test("a waiter that is woken without cause claims again at once the first time, and then every five milliseconds", async () => {
  const { another, inner, world, sleep, settle, advance, kinds } = createScene({ waitMs: 16 });
  const owner = another().run(request, () => sleep(20).then(() => "mine"));
  await advance(1);
  const claimedAt: number[] = [];
  const { store } = claimStore(inner, (_, claim) => {
    claimedAt.push(world.now());
    return inner.claim(claim);
  });
  const restless: Store = {
    ...store,
    watch({ wake }) {
      world.after(0, wake);
      return Promise.resolve(() => {});
    },
  };
  expect(await settle(another({ store: restless }).run(request, () => "never"))).toBe("mine");
  expect(claimedAt).toEqual([1, 1, 6, 11, 16, 21]);
  expect(kinds()).toEqual(["claimed", "completed", "waited", "replayed"]);
  await owner;
});

test("a waiter whose claim is answered too late gives it back and continues with a fresh token", async () => {
  const { another, inner, sleep, settle, advance } = createScene({ leaseMs: 100, waitMs: 5_000 });
  const owner = another().run(request, () => sleep(50).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  await advance(1);
  const tokens: string[] = [];
  const { store, calls } = claimStore(inner, async (count, claim) => {
    tokens.push(claim.token);
    const answer = await inner.claim(claim);
    if (count === 2) await sleep(95);
    return answer;
  });
  expect(await settle(another({ store }).run(request, ({ number }) => number))).toBe(3);
  expect(new Set(tokens).size).toBe(3);
  expect(calls).toEqual({ claim: 3, abandon: 1 });
});

test("returns unavailable to a waiter whose time is up when its claim is answered too late", async () => {
  const { another, inner, sleep, settle, advance, kinds } = createScene({ leaseMs: 100, waitMs: 144 });
  const owner = another().run(request, () => sleep(50).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  await advance(1);
  const { store, calls } = claimStore(inner, async (count, claim) => {
    const answer = await inner.claim(claim);
    if (count === 2) await sleep(95);
    return answer;
  });
  await expect(settle(another({ store }).run(request, () => 1))).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the claim was answered after its lease had ended"),
  });
  await advance(10);
  expect(calls).toEqual({ claim: 2, abandon: 1 });
  expect(kinds()).toEqual(["claimed", "renewed", "abandoned", "waited", "unavailable"]);
});

test("does not wait for a caller that cancels while its claim is in flight", async () => {
  const { guard, another, store, sleep, settle, advance } = createScene();
  const owner = another().run(request, () => sleep(500));
  await advance(1);
  const caller = new AbortController();
  store.plan("claim", "delay-reply");
  const waiter = guard.run({ ...request, signal: caller.signal }, () => "never");
  waiter.catch(() => {});
  caller.abort();
  await settle(owner);
  await advance(1_000);
  expect(store.calls).toMatchObject({ claim: 1, watch: 0, read: 0 });
});

test("close between claim and work: gives back the claim as unrun, and the caller gets guard-closed", async () => {
  const { guard, another, store, settle, advance, kinds } = createScene();
  store.plan("claim", "delay");
  let runs = 0;
  const run = guard.tryRun(request, () => runs++);
  await advance(0.5);
  const closing = guard.close();
  expect(await settle(run)).toMatchObject({ status: "unavailable", error: { code: "guard-closed" } });
  expect(await settle(closing)).toEqual([]);
  expect(runs).toBe(0);
  expect(kinds()).toEqual([]);
  expect((await another().read(request))?.state).toBe("released");
});

test("close of an idle guard resolves at once, and leaves no timer behind", async () => {
  const { guard, settle, world } = createScene({ drainMs: 5_000 });
  await guard.run(request, () => 1);
  expect(await settle(guard.close())).toEqual([]);
  await world.run(() => false);
  expect(world.now()).toBe(0);
});

test("close waits until the store has recorded the outcome of the last work", async () => {
  const { guard, another, store, settle, world } = createScene({ completeWaitMs: 10, drainMs: 5_000 });
  for (let i = 0; i < 3; i++) store.plan("complete", "refuse");
  await settle(guard.run(request, () => "kept"));
  expect(await settle(guard.close())).toEqual([]);
  // Refused at 0 ms, twice, and at 25 ms; accepted after another 50 ms.
  expect(world.now()).toBe(75);
  expect(await another().run(request, () => "again")).toBe("kept");
});

test("close reports exactly the work that still runs, and the observer receives that it was given up", async () => {
  const { guard, settle, advance, sleep, events } = createScene({ drainMs: 100 });
  await guard.run({ ...request, key: "done" }, () => 1);
  guard.run(request, () => sleep(1_000)).catch(() => {});
  await advance(1);
  expect(await settle(guard.close())).toEqual([
    { operation: "charge", keyHash: expect.any(String), fence: START_FENCE + 1 },
  ]);
  expect(events.at(-1)).toMatchObject({ kind: "lease-lost", fence: START_FENCE + 1, reason: "guard-closed" });
});

test("proceed: measures the work from its start, and gives it no fence and no number", async () => {
  const { guard, store, settle, sleep, events } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  expect(
    await settle(guard.run(request, ({ fence, number }) => sleep(30).then(() => ({ fence, number })))),
  ).toEqual({ fence: 0, number: 0 });
  expect(events.at(-1)).toMatchObject({ kind: "completed", fence: 0, ranMs: 30 });
  expect(events[0]).toMatchObject({
    kind: "unavailable",
    during: "claim",
    cause: { message: "faulty store: claim was refused" },
  });
});

test("returns unknown to a caller that meets a lapsed held claim, and reports to the observer that it lapsed", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene, request);
  expect(await scene.guard.tryRun(request, () => 1)).toEqual({ status: "unknown", fence });
  expect(scene.kinds()).toEqual(["claimed", "abandoned", "lapsed"]);
});

test("cancel: ends the wait of a caller that cancels at once, and its subscription too", async () => {
  const { another, inner, sleep, settle, advance } = createScene();
  const owner = another().run(request, () => sleep(500));
  await advance(1);
  let subscriptions = 0;
  const store: Store = {
    ...inner,
    async watch(watch) {
      const end = await inner.watch?.(watch);
      subscriptions++;
      return () => {
        subscriptions--;
        end?.();
      };
    },
  };
  const caller = new AbortController();
  const waiter = another({ store }).run({ ...request, signal: caller.signal }, () => "never");
  waiter.catch(() => {});
  await advance(10);
  expect(subscriptions).toBe(1);
  caller.abort();
  await advance(1);
  expect(subscriptions).toBe(0);
  await settle(owner);
});

test("proceed: work without a claim renews nothing and loses nothing, however long it runs", async () => {
  const { guard, store, sleep, settle, kinds } = createScene({ onUnavailable: "proceed", leaseMs: 100 });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  const run = guard.run(request, ({ signal }) => sleep(1_000).then(() => signal.aborted));
  expect(await settle(run)).toBe(false);
  expect(store.calls.renew).toBe(0);
  expect(kinds()).toEqual(["unavailable", "proceeded", "completed"]);
});
