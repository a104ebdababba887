/** A claim that its work renews by itself, beside the renewals that are made for it. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "k" };

test("renewing holds the claim for a whole lease from then on", async () => {
  const { guard, inner, sleep, settle } = createScene({ leaseMs: 300 });
  const leases: (number | undefined)[] = [];
  await settle(
    guard.run(request, async (attempt) => {
      await sleep(80);
      leases.push((await guard.read(request))?.leaseLeftMs);
      expect(await attempt.renew()).toBe(true);
      leases.push((await guard.read(request))?.leaseLeftMs);
    }),
  );
  expect(leases).toEqual([220, 300]);
  await inner.close();
});

test("the renewals that are made by themselves go on from there", async () => {
  const { guard, sleep, settle, store } = createScene({ leaseMs: 300 });
  await settle(
    guard.run(request, async (attempt) => {
      await sleep(90);
      await attempt.renew();
      await sleep(95);
      expect(store.calls.renew).toBe(1);
      await sleep(10);
      expect(store.calls.renew).toBe(2);
    }),
  );
});

test("once another attempt has the key it answers false, and the attempt is told that it is lost", async () => {
  const { guard, another, sleep, settle, store } = createScene({ leaseMs: 100 });
  const answers: unknown[] = [];
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const late = guard.tryRun(request, async (attempt) => {
    await sleep(400);
    answers.push(await attempt.renew(), attempt.signal.aborted);
    return "late";
  });
  await settle(sleep(150));
  await settle(another().run(request, () => "other"));
  await settle(late);
  expect(answers).toEqual([false, true]);
});

test("a store that says no at once takes the claim away before its time", async () => {
  const { guard, inner, settle } = createScene({ leaseMs: 300 });
  const answers: unknown[] = [];
  await settle(
    guard
      .tryRun(request, async (attempt) => {
        const record = (await inner.list?.({ namespace: "scene", limit: 1 }))?.records[0];
        if (record === undefined) throw new Error("no record");
        await inner.abandon({ id: record.id, token: record.token, as: "released" });
        answers.push(await attempt.renew(), attempt.signal.aborted);
      })
      .catch(() => {}),
  );
  expect(answers).toEqual([false, true]);
});

test("a store that does not answer rejects it, and the claim is held to its own end", async () => {
  const { guard, settle, store } = createScene({ leaseMs: 300, storeTimeoutMs: 50 });
  await settle(
    guard.run(request, async (attempt) => {
      store.plan("renew", "hang");
      await expect(settle(attempt.renew())).rejects.toThrow("did not answer");
      expect(attempt.signal.aborted).toBe(false);
      expect(await attempt.renew()).toBe(true);
    }),
  );
});

test("work that proceeds without a claim has none to renew", async () => {
  const { guard, settle, store } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  await settle(
    guard.run(request, async (attempt) => {
      expect(await attempt.renew()).toBe(false);
    }),
  );
  expect(store.calls.renew).toBe(0);
});

test("onRenewed is told after each renewal that the store granted, and only then", async () => {
  const { guard, sleep, settle, store } = createScene({ leaseMs: 300 });
  store.plan("renew", "refuse");
  let told = 0;
  const onRenewed = () => {
    told++;
    throw new Error("whoever is told cannot break what it is told of");
  };
  const work = () => sleep(1_000).then(() => "done");
  expect(await settle(guard.run({ operation: "charge", key: "order-1", onRenewed }, work))).toBe("done");
  expect(told).toBe(store.calls.renew - 1);
  expect(told).toBeGreaterThan(3);
});

test("what is no function is refused as onRenewed", async () => {
  const { guard } = createScene();
  await expect(
    guard.run({ operation: "charge", key: "order-1", onRenewed: true as never }, () => 1),
  ).rejects.toThrow("onRenewed is true; it must be a function");
});
