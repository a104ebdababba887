/** Tests the dangers of a lease: it ends while work runs, a late writer returns, the clock jumps. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "order-1" };

test("renews the lease of long work at a third of its length, runs the work once, and lets duplicates wait for it", async () => {
  const { guard, another, sleep, settle, store } = createScene({ leaseMs: 300, waitMs: 5_000 });
  let runs = 0;
  const work = async () => {
    runs++;
    await sleep(1_000);
    return runs;
  };
  const first = guard.run(request, work);
  const second = another().run(request, work);
  expect(await settle(first)).toBe(1);
  expect(await settle(second)).toBe(1);
  expect(runs).toBe(1);
  expect(store.calls.renew).toBe(9);
});

test("late-writer: refuses a completion after a takeover, and replays the stored outcome to the late caller", async () => {
  const { guard, another, sleep, settle, store, events } = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const late = guard.tryRun(request, async () => {
    await sleep(400);
    return "late";
  });
  await settle(sleep(150));
  expect(await settle(another().run(request, () => "taken over"))).toBe("taken over");
  expect(await settle(late)).toEqual({ status: "replayed", value: "taken over" });
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "not-renewed" }));
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "overtaken" }));
  expect(await guard.run(request, () => "again")).toBe("taken over");
});

test("late-writer: returns lease-lost and its value to the late caller while the other attempt still runs", async () => {
  const { guard, another, sleep, settle, store } = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const late = guard.tryRun(request, () => sleep(300).then(() => "late"));
  await settle(sleep(150));
  const second = another().run(request, () => sleep(500).then(() => "second"));
  expect(await settle(late)).toEqual({ status: "lease-lost", value: "late" });
  expect(await settle(second)).toBe("second");
});

test("an attempt that lost its lease but was not overtaken still completes", async () => {
  const { guard, sleep, settle, store } = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const signals: boolean[] = [];
  const late = guard.tryRun(request, async (attempt) => {
    await sleep(300);
    signals.push(attempt.signal.aborted);
    return "late";
  });
  expect(await settle(late)).toEqual({ status: "ran", value: "late", recorded: true });
  expect(signals).toEqual([true]);
});

test("the signal fires before the store ends the lease, and deriveKey throws from then on", async () => {
  const { guard, world, sleep, settle, store } = createScene({ leaseMs: 1_000 });
  for (let i = 0; i < 20; i++) store.plan("renew", "refuse");
  let firedAt = 0;
  const run = guard.run(request, async (attempt) => {
    attempt.signal.addEventListener("abort", () => {
      firedAt = world.now();
    });
    await sleep(950);
    expect(() => attempt.deriveKey("psp")).toThrow(expect.objectContaining({ code: "lease-lost" }));
    return "value";
  });
  await settle(run);
  expect(firedAt).toBe(900);
});

test("loses the lease when renew returns false", async () => {
  const { guard, inner, sleep, settle, events } = createScene({ leaseMs: 300 });
  const run = guard.tryRun(request, async (attempt) => {
    await sleep(50);
    const [record] = (await inner.list?.({ namespace: "scene", limit: 1 }))?.records ?? [];
    await inner.abandon({ id: record?.id ?? "", token: record?.token ?? "", as: "unknown" });
    await sleep(100);
    return attempt.signal.aborted;
  });
  expect(await settle(run)).toEqual({ status: "ran", value: true, recorded: true });
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "overtaken" }));
});

test("retries a failed renew before the lease ends", async () => {
  const { guard, sleep, settle, store, kinds } = createScene({ leaseMs: 1_000 });
  store.plan("renew", "refuse");
  store.plan("renew", "lose-reply");
  await settle(guard.run({ ...request, storeTimeoutMs: 100 }, () => sleep(2_500)));
  const [first, ...rest] = kinds();
  expect([first, rest.pop()]).toEqual(["claimed", "completed"]);
  expect(new Set(rest)).toEqual(new Set(["renewed"]));
});

test("stops renewing after maxRunMs: the signal fires, the key lapses, and another attempt takes over", async () => {
  const { guard, another, advance, settle, sleep, events } = createScene({
    leaseMs: 300,
    maxRunMs: 1_000,
    waitMs: 5_000,
  });
  const stuck = guard.tryRun(
    request,
    ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  stuck.catch(() => {});
  await advance(1_001);
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "ran-too-long" }));
  await settle(sleep(300));
  expect(await settle(another().run(request, ({ number }) => number))).toBe(2);
});

test("work that throws after its signal fired is unknown, never released", async () => {
  const { guard, inner, sleep, settle, store } = createScene({ leaseMs: 100, onFailure: "release" });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  await expect(
    settle(
      guard.run(request, async () => {
        await sleep(95);
        throw new Error("connection reset");
      }),
    ),
  ).rejects.toThrow("connection reset");
  const [record] = (await inner.list?.({ namespace: "scene", limit: 1 }))?.records ?? [];
  expect(record?.state).toBe("lapsed");
});

test("cancel: the call rejects at once, the work continues, and its outcome is stored", async () => {
  const { guard, sleep, settle, advance } = createScene();
  const caller = new AbortController();
  let isFired = false;
  const run = guard.run({ ...request, signal: caller.signal }, async (attempt) => {
    await sleep(100);
    isFired = attempt.signal.aborted;
    return "kept";
  });
  run.catch(() => {});
  await advance(10);
  const reason = new Error("the browser was closed");
  caller.abort(reason);
  await expect(run).rejects.toBe(reason);
  expect((await guard.read(request))?.state).toBe("pending");
  expect(await settle(guard.run(request, () => "again"))).toBe("kept");
  expect(isFired).toBe(false);
});

test("cancel: work that throws afterwards is unknown, never released", async () => {
  const { guard, sleep, advance } = createScene();
  const caller = new AbortController();
  const run = guard.run({ ...request, signal: caller.signal }, async () => {
    await sleep(100);
    caller.signal.throwIfAborted();
  });
  run.catch(() => {});
  await advance(10);
  caller.abort();
  await advance(100);
  expect((await guard.read(request))?.state).toBe("lapsed");
});

test("cancel: a waiter stops waiting without disturbing the owner; a signal that has already fired runs nothing", async () => {
  const { guard, sleep, settle, advance, store } = createScene();
  const owner = guard.run(request, () => sleep(500).then(() => "mine"));
  const caller = new AbortController();
  const waiter = guard.run({ ...request, signal: caller.signal }, () => "never");
  waiter.catch(() => {});
  await advance(10);
  caller.abort(new Error("gone"));
  await expect(waiter).rejects.toThrow("gone");
  expect(await settle(owner)).toBe("mine");
  const claims = store.calls.claim;
  await expect(guard.run({ ...request, signal: caller.signal }, () => "never")).rejects.toThrow("gone");
  expect(store.calls.claim).toBe(claims);
});

test("cancel between claim and work: gives back the claim as unrun", async () => {
  const { guard, store, advance, kinds } = createScene();
  const caller = new AbortController();
  store.plan("claim", "delay");
  let runs = 0;
  const run = guard.run({ ...request, signal: caller.signal }, () => runs++);
  run.catch(() => {});
  caller.abort();
  await advance(200);
  expect(runs).toBe(0);
  expect(kinds()).toEqual([]);
  expect((await guard.read(request))?.state).toBe("released");
});

test("gives back a claim that is answered after its lease has ended, and does not run the work", async () => {
  const { guard, another, store, settle, advance } = createScene({ leaseMs: 20, storeTimeoutMs: 1_000 });
  store.plan("claim", "delay-reply");
  let runs = 0;
  expect(await settle(guard.tryRun(request, () => runs++))).toMatchObject({
    status: "unavailable",
    error: { code: "unavailable" },
  });
  expect(runs).toBe(0);
  await advance(10);
  expect((await guard.read(request))?.state).toBe("released");
  expect(await another().run(request, ({ number }) => number)).toBe(2);
});

test("clock-jump: a store clock that goes back never hands over a running key, and frees a dead one within a lease", async () => {
  const { guard, another, settle, jump, sleep, inner } = createScene({ leaseMs: 1_000, waitMs: 4_000 });
  await inner.claim({
    id: "unused",
    parts: { namespace: "scene", scope: "", operation: "x", key: "x" },
    token: "t",
    leaseMs: 1,
    retentionMs: 1,
    hold: false,
  });
  const alive = guard.run(request, () => sleep(3_000).then(() => "alive"));
  jump(-60_000);
  expect(await settle(another().run(request, () => "second"))).toBe("alive");
  expect(await settle(alive)).toBe("alive");
});

test("clock-jump: if the clock jumps past the lease, the key is taken over with a higher fence", async () => {
  const { guard, another, settle, jump, sleep, store } = createScene({ leaseMs: 1_000 });
  store.plan("renew", "hang");
  const fences: number[] = [];
  const first = guard.tryRun(request, (attempt) => {
    fences.push(attempt.fence);
    return sleep(500).then(() => "first");
  });
  await settle(sleep(10));
  jump(5_000);
  await settle(
    another().run(request, (attempt) => {
      fences.push(attempt.fence);
      return "second";
    }),
  );
  expect(await settle(first)).toEqual({ status: "replayed", value: "second" });
  expect(fences[1]).toBeGreaterThan(fences[0] as number);
});
