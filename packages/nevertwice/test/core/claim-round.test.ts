/** Tests one round of claiming: its tries, its pauses, and the grants that arrive late. */
import { expect, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { claimStore, createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("retries a failed claim after a pause that doubles", async () => {
  const { another, inner, settle, world } = createScene();
  const triedAt: number[] = [];
  const { store } = claimStore(inner, () => {
    triedAt.push(world.now());
    return Promise.reject(new Error("away"));
  });
  await settle(another({ store }).tryRun(request, () => 1));
  expect(triedAt).toEqual([0, 50, 150]);
});

test("gives back a claim that is answered at the very end of its lease, and does not run the work", async () => {
  const { another, inner, settle, sleep } = createScene({ leaseMs: 100 });
  for (const [replyMs, status] of [
    [89, "ran"],
    [90, "unavailable"],
  ] as const) {
    const { store } = claimStore(inner, async (_, claim) => {
      const answer = await inner.claim(claim);
      await sleep(replyMs);
      return answer;
    });
    const key = `answered after ${replyMs} ms`;
    expect(await settle(another({ store }).tryRun({ ...request, key }, () => 1))).toMatchObject({ status });
  }
});

test("does not give back a claim that was refused: it holds nothing", async () => {
  const { another, inner, settle, sleep, advance } = createScene({ storeTimeoutMs: 20 });
  const owner = another().run(request, () => sleep(5_000));
  await advance(1);
  const full = claimStore(inner, () => Promise.reject(new NevertwiceError("store-full", "no room")));
  await settle(another({ store: full.store }).tryRun(request, () => 1));
  expect(full.calls).toEqual({ claim: 1, abandon: 0 });

  const failing = claimStore(inner, (count, claim) =>
    count === 1 ? Promise.reject(new Error("away")) : inner.claim(claim),
  );
  const reject = { onPending: "reject" } as const;
  await settle(another({ store: failing.store, ...reject }).tryRun(request, () => 1));
  await advance(1_000);
  expect(failing.calls).toEqual({ claim: 2, abandon: 0 });

  const late = claimStore(inner, (count, claim) =>
    count === 1 ? sleep(200).then(() => inner.claim(claim)) : inner.claim(claim),
  );
  await settle(another({ store: late.store, ...reject }).tryRun(request, () => 1));
  await advance(1_000);
  expect(late.calls).toEqual({ claim: 2, abandon: 0 });
  await settle(owner);
});

test("gives back a grant that arrives after its round was refused", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const owner = another().run(request, () => sleep(150).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  // The first try times out at 20 ms and is applied at 200 ms. By then the second try was refused, and the owner is
  // gone.
  const { store, calls } = claimStore(inner, (count, claim) =>
    count === 1 ? sleep(200).then(() => inner.claim(claim)) : inner.claim(claim),
  );
  const guard = another({ store, storeTimeoutMs: 20, onPending: "reject" });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "pending" });
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 1 });
  expect(await reader.read(request)).toMatchObject({ state: "released", number: 2 });
});

test("uses a grant that arrives while a later try is in flight, whatever the answer to the later try", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const owner = another().run(request, () => sleep(155).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  // The second try is refused at 150 ms, and its answer arrives at 168 ms; the first one is granted at 160 ms.
  const { store, calls } = claimStore(inner, async (count, claim) => {
    if (count === 1) await sleep(160);
    const answer = await inner.claim(claim);
    if (count === 2) await sleep(18);
    return answer;
  });
  const guard = another({ store, storeTimeoutMs: 200, onPending: "reject" });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "ran", recorded: true });
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 0 });
  expect(await reader.read(request)).toMatchObject({ state: "completed", number: 2 });
});

test.each([0, 1, 2, 3, 4, 5])(
  "uses or gives back a grant that arrives %i turns after another try was refused",
  async (turns) => {
    const { guard: reader, another, inner, settle, sleep, advance } = createScene();
    const owner = another().run(request, () => sleep(155).then(() => Promise.reject(new Error("no"))));
    owner.catch(() => {});
    let answerFirst: (answer: Awaited<ReturnType<Store["claim"]>>) => void = () => {};
    const first: ReturnType<Store["claim"]> = new Promise((resolve) => {
      answerFirst = resolve;
    });
    const { store } = claimStore(inner, async (count, claim) => {
      if (count === 1) return first;
      const refusal = await inner.claim(claim);
      await sleep(20);
      const grant = await inner.claim(claim);
      const answerAfter = (left: number): void =>
        left === 0 ? answerFirst(grant) : queueMicrotask(() => answerAfter(left - 1));
      answerAfter(turns);
      return refusal;
    });
    const guard = another({ store, storeTimeoutMs: 200, onPending: "reject" });
    const { status } = await settle(guard.tryRun(request, () => 1));
    await advance(500);
    const state = status === "ran" ? "completed" : "released";
    expect(await reader.read(request)).toMatchObject({ state, number: 2 });
  },
);

test("gives back a grant that arrives after an earlier try of its round was refused late", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const owner = another().run(request, () => sleep(155).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  // The first try is refused at 151 ms, which the caller is told; the second one, sent at 150 ms, is granted at 160
  // ms.
  const { store, calls } = claimStore(inner, async (count, claim) => {
    await sleep(count === 1 ? 151 : 10);
    return inner.claim(claim);
  });
  const guard = another({ store, storeTimeoutMs: 200, onPending: "reject" });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "pending" });
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 1 });
  expect(await reader.read(request)).toMatchObject({ state: "released", number: 2 });
});

test("cancel between claim and work: gives back a grant that arrives after the claim was given back and forgotten", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const caller = new AbortController();
  const { store, calls } = claimStore(inner, (count, claim) => {
    if (count === 1) return sleep(300).then(() => inner.claim(claim));
    caller.abort();
    return inner.claim(claim);
  });
  const guard = another({ store, storeTimeoutMs: 20 });
  const run = guard.run({ ...request, signal: caller.signal }, () => 1);
  await expect(settle(run)).rejects.toMatchObject({ name: "AbortError" });
  await advance(50);
  expect(await reader.forget(request)).toBe(true);
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 2 });
  expect((await reader.read(request))?.state).toBe("released");
});

test("proceed does not apply to a decision: its claim is given back when the store does not answer", async () => {
  const scene = createScene({ onUnavailable: "proceed", onFailure: "unknown", leaseMs: 60_000 });
  await scene.guard.run(request, () => Promise.reject(new Error("no"))).catch(() => {});
  const fence = (await scene.guard.read(request))?.fence ?? 0;
  scene.store.plan("claim", "lose-reply");
  scene.store.plan("claim", "hang");
  const decision = scene.guard.resolve({ ...request, fence }, { status: "done", value: 1 });
  await expect(scene.settle(decision)).rejects.toMatchObject({ code: "unavailable" });
  await scene.advance(100);
  expect(await scene.guard.read(request)).toMatchObject({ state: "lapsed", number: 2 });
});

test("proceed does not apply either when too many background calls are waiting; with one fewer, the claim is sent", async () => {
  const { another, inner, settle, advance } = createScene({ completeWaitMs: 0 });
  let isAway = true;
  const store: Store = {
    ...inner,
    complete: (completion) => (isAway ? new Promise(() => {}) : inner.complete(completion)),
  };
  const guard = another({ store, storeTimeoutMs: 1_000 });
  const run = (key: number) =>
    guard.tryRun({ ...request, key: `k${key}`, onUnavailable: "proceed" }, () => key);
  for (let key = 0; key < 9_999; key++) await run(key);
  expect(await run(9_999)).toEqual({ status: "ran", value: 9_999, recorded: false });
  expect(await run(10_000)).toMatchObject({ status: "unavailable", error: { code: "unavailable" } });
  isAway = false;
  await advance(10_000);
  expect(await run(10_000)).toEqual({ status: "ran", value: 10_000, recorded: false });
  await settle(guard.close());
});
