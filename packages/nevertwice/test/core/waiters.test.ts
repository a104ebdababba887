/** Tests the dangers of waiting: a waiter is woken late or never, or gets an answer that it should not see. */
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "order-1" };

test("wakes waiters on completion, not by a poll, and each claims again for itself", async () => {
  const scene = createScene();
  const owner = scene.guard.run(request, () => scene.sleep(333).then(() => "mine"));
  const second = scene.another();
  const waiters = Array.from({ length: 50 }, () => second.run(request, () => "never"));
  expect(await scene.settle(Promise.all(waiters))).toEqual(new Array(50).fill("mine"));
  expect(scene.world.now()).toBe(333);
  await owner;
});

test("waiters of one process share one subscription and one read", async () => {
  const scene = createScene();
  const owner = scene.guard.run(request, () => scene.sleep(100).then(() => "mine"));
  await scene.advance(1);
  const { store } = scene;
  const before = { ...store.calls };
  const waiters = Array.from({ length: 20 }, () => scene.guard.run(request, () => "never"));
  await scene.settle(Promise.all([owner, ...waiters]));
  expect(store.calls.watch - before.watch).toBe(1);
  expect(store.calls.read - before.read).toBe(1);
  expect(store.calls.claim - before.claim).toBe(40);
});

test("compares a waiter's own fingerprint when it is woken", async () => {
  const scene = createScene();
  // The owner has no fingerprint, so both wait; the first one to claim afterwards sets it for the key.
  const owner = scene.guard.run(request, () => scene.sleep(100).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  await scene.advance(1);
  const waiters = ["a", "b"].map((fingerprint) =>
    scene.guard.tryRun({ ...request, fingerprint }, () => fingerprint),
  );
  expect(await scene.settle(Promise.all(waiters))).toEqual([
    { status: "ran", value: "a", recorded: true },
    { status: "conflict", state: "pending" },
  ]);
});

test("when the owner fails, one waiter runs and the others wait for it", async () => {
  const scene = createScene();
  const owner = scene.guard.run(request, () =>
    scene.sleep(100).then(() => Promise.reject(new Error("failed"))),
  );
  owner.catch(() => {});
  let runs = 0;
  const work = async () => {
    runs++;
    await scene.sleep(100);
    return runs;
  };
  const waiters = Array.from({ length: 10 }, () => scene.another().run(request, work));
  expect(await scene.settle(Promise.all(waiters))).toEqual(new Array(10).fill(1));
  await expect(owner).rejects.toThrow("failed");
  expect(runs).toBe(1);
});

test("when the owner dies, a waiter takes over as soon as its lease has ended", async () => {
  const scene = createScene({ leaseMs: 500, waitMs: 10_000 });
  const dying = scene.another({ store: { ...scene.inner, renew: () => new Promise(() => {}) } });
  dying.run(request, () => new Promise(() => {})).catch(() => {});
  expect(await scene.settle(scene.guard.run(request, ({ number }) => number))).toBe(2);
  expect(scene.world.now()).toBeGreaterThanOrEqual(500);
  expect(scene.world.now()).toBeLessThan(520);
});

test("without watch, waiters poll, and are answered within one poll", async () => {
  const scene = createScene();
  const { watch: _, ...unwatched } = scene.inner;
  const poller = scene.another({ store: unwatched as Store });
  const owner = scene.guard.run(request, () => scene.sleep(300).then(() => "mine"));
  await scene.advance(1);
  expect(await scene.settle(poller.run(request, () => "never"))).toBe("mine");
  expect(scene.world.now()).toBeLessThan(600);
  await owner;
});

test("the slow poll makes up for a lost push", async () => {
  const scene = createScene({ waitMs: 60_000 });
  const deaf = scene.another({ store: { ...scene.inner, watch: async () => () => {} } });
  const owner = scene.guard.run(request, () => scene.sleep(300).then(() => "mine"));
  await scene.advance(1);
  expect(await scene.settle(deaf.run(request, () => "never"))).toBe("mine");
  expect(scene.world.now()).toBeLessThan(8_000);
  await owner;
});

test.each(["refuse", "hang"] as const)(
  "a subscription that fails with %s leaves the waiter polling",
  async (fault) => {
    const scene = createScene({ waitMs: 60_000 });
    scene.store.plan("watch", fault);
    scene.store.plan("read", "refuse");
    const owner = scene.another().run(request, () => scene.sleep(300).then(() => "mine"));
    await scene.advance(1);
    expect(await scene.settle(scene.guard.run(request, () => "never"))).toBe("mine");
    expect(scene.world.now()).toBeLessThan(8_000);
    await owner;
  },
);

test("ends a subscription that succeeds when no waiter is left", async () => {
  const scene = createScene({ waitMs: 60_000, storeTimeoutMs: 100 });
  const ends = { count: 0 };
  const slow: Store = {
    ...scene.inner,
    watch: async () => {
      await scene.sleep(500);
      return () => void ends.count++;
    },
  };
  const owner = scene.guard.run(request, () => scene.sleep(300).then(() => "mine"));
  await scene.advance(1);
  expect(await scene.settle(scene.another({ store: slow }).run(request, () => "never"))).toBe("mine");
  await scene.advance(1_000);
  expect(ends.count).toBe(1);
  await owner;
});

test("a store that wakes while it subscribes still wakes every waiter", async () => {
  const scene = createScene({ waitMs: 3_000 });
  const eager: Store = {
    ...scene.inner,
    watch(request) {
      request.wake();
      return (scene.inner.watch as NonNullable<Store["watch"]>)(request);
    },
  };
  const guard = scene.another({ store: eager });
  const owner = scene.guard.run(request, () => scene.sleep(100).then(() => "mine"));
  await scene.advance(1);
  const waiters = [guard.run(request, () => "never"), guard.run(request, () => "never")];
  expect(await scene.settle(Promise.all(waiters))).toEqual(["mine", "mine"]);
  expect(scene.world.now()).toBeLessThan(150);
  await owner;
});

test("does not miss a completion between the refused claim and the subscription", async () => {
  const scene = createScene({ waitMs: 60_000 });
  const owner = scene.another().run(request, () => scene.sleep(20).then(() => "mine"));
  await scene.advance(1);
  scene.store.plan("watch", "delay");
  expect(await scene.settle(scene.guard.run(request, () => "never"))).toBe("mine");
  expect(scene.world.now()).toBeLessThan(100);
  await owner;
});
