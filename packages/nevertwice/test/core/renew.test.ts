/** Tests work that renews its own claim, next to the automatic renewals. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "k" };

test("renew extends the claim for a whole lease from now on", async () => {
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

test("automatic renewals continue from the last renewal", async () => {
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

test("returns false once another attempt has the key, and fires the attempt's signal", async () => {
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

test("loses the claim early if the store refuses the renewal at once", async () => {
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

test("rejects if the store does not answer, and the claim lasts to its own end", async () => {
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

test("returns false for work that proceeds without a claim", async () => {
  const { guard, settle, store } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  await settle(
    guard.run(request, async (attempt) => {
      expect(await attempt.renew()).toBe(false);
    }),
  );
  expect(store.calls.renew).toBe(0);
});

test("calls onRenewed after each renewal that the store granted, and only then", async () => {
  const { guard, sleep, settle, store } = createScene({ leaseMs: 300 });
  store.plan("renew", "refuse");
  let calls = 0;
  const onRenewed = () => {
    calls++;
    throw new Error("an observer that throws must not break the renewal");
  };
  const work = () => sleep(1_000).then(() => "done");
  expect(await settle(guard.run({ operation: "charge", key: "order-1", onRenewed }, work))).toBe("done");
  expect(calls).toBe(store.calls.renew - 1);
  expect(calls).toBeGreaterThan(3);
});

test("refuses an onRenewed that is not a function", async () => {
  const { guard } = createScene();
  await expect(
    guard.run({ operation: "charge", key: "order-1", onRenewed: true as never }, () => 1),
  ).rejects.toThrow("onRenewed is true; it must be a function");
});
