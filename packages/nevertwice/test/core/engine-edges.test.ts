/** The edges of telling the store how an attempt ended, and of what the observer is told about it. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createBackground } from "../../src/core/background.ts";
import { type Bound, bounded } from "../../src/core/calls.ts";
import type { Timer } from "../../src/core/clock.ts";
import { createEngine } from "../../src/core/engine.ts";
import { NevertwiceError } from "../../src/core/errors.ts";
import { createEmit } from "../../src/core/observer.ts";
import type { Decision } from "../../src/core/policy.ts";
import type { Store, StoreRecord } from "../../src/core/store.ts";
import { randomToken } from "../../src/core/token.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };
const START_FENCE = 1_700_000_000_000_000;

/** The very first one of this process. */
const firstToken = randomToken();

test("how long the work ran counts from its claim, whenever that was", async () => {
  const scene = createScene();
  await scene.advance(500);
  await scene.settle(scene.guard.run(request, () => scene.sleep(70)));
  expect(scene.events.at(-1)).toMatchObject({ kind: "completed", fence: START_FENCE + 500_000, ranMs: 70 });
});

test("retention from the claim counts from the claim, whenever that was, and leaves a millisecond at least", async () => {
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

test("abandoned and not-kept are told with their fence, and an unanswered completion with its cause", async () => {
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

test("work that throws after it was overtaken is told as lease-lost, not as abandoned", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.run(request, () => scene.sleep(300).then(() => Promise.reject(new Error("late"))));
  late.catch(() => {});
  await scene.advance(150);
  const second = scene.another().run(request, () => scene.sleep(500));
  await expect(scene.settle(late)).rejects.toThrow("late");
  const keyHash = expect.any(String);
  expect(scene.events).toEqual([
    { kind: "claimed", operation: "charge", keyHash, fence: START_FENCE, number: 1 },
    { kind: "lease-lost", operation: "charge", keyHash, fence: START_FENCE, reason: "not-renewed" },
    { kind: "lapsed", operation: "charge", keyHash },
    { kind: "taken-over", operation: "charge", keyHash, fence: START_FENCE + 150_000, number: 2 },
    { kind: "lease-lost", operation: "charge", keyHash, fence: START_FENCE, reason: "overtaken" },
  ]);
  await scene.settle(second);
});

test("a late completion that was overtaken is told with the late attempt's fence", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.run(request, () => scene.sleep(300));
  await scene.advance(150);
  await scene.another().run(request, () => "second");
  await scene.settle(late);
  expect(scene.events.at(-1)).toMatchObject({ kind: "lease-lost", fence: START_FENCE, reason: "overtaken" });
});

test("late-writer: an outcome of another request is not handed to the late caller", async () => {
  const scene = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  const late = scene.guard.tryRun({ ...request, fingerprint: { amount: 1 } }, () =>
    scene.sleep(300).then(() => "one"),
  );
  await scene.advance(150);
  // Forgotten by an operator, so that the same key may be used for another request.
  const second = scene.another();
  expect(await second.forget(request)).toBe(true);
  expect(await second.run({ ...request, fingerprint: { amount: 2 } }, () => "two")).toBe("two");
  expect(await scene.settle(late)).toEqual({ status: "lease-lost", value: "one" });
});

test("a completion that is refused although its own outcome stands there is recorded", async () => {
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

test("a grant that is repeated while the work runs is not told the end twice", async () => {
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
  // The first claim is given up on at 20 ms, and its answer comes at 100 ms, while the second one's work runs.
  expect(await settle(guard.run(request, () => sleep(500).then(() => "mine")))).toBe("mine");
  await advance(1_000);
  expect(calls).toEqual({ claim: 2, complete: 1 });
  expect(kinds()).toEqual(["claimed", "completed"]);
});

test("proceed: work that fails, and that nobody ever claimed, tells the observer of no lost lease", async () => {
  const { guard, store, settle, kinds } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  await expect(settle(guard.run(request, () => Promise.reject(new Error("no"))))).rejects.toThrow("no");
  expect(kinds()).toEqual(["unavailable", "proceeded"]);
});

test("proceed: a possible duplicate is told once, however often the store is asked", async () => {
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

test("proceed: a claim that is granted after it was given up on is completed until the store has answered", async () => {
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

test("proceed: a claim that is refused after it was given up on completes nothing", async () => {
  const scene = createScene();
  const owner = scene.another().run(request, () => scene.sleep(1_000).then(() => "owner's"));
  await scene.advance(1);
  const { guard, calls } = proceedThenClaimLate(scene);
  await scene.settle(guard.tryRun(request, () => "mine"));
  expect(await scene.settle(owner)).toBe("owner's");
  expect(calls).toEqual({ claim: 5, complete: 0 });
});

/** A store that counts what it is asked, and whose claims are answered by `answer`, which is told how many there were. */
function claimStore(
  inner: Store,
  answer: (count: number, claim: Parameters<Store["claim"]>[0]) => ReturnType<Store["claim"]>,
) {
  const calls = { claim: 0, abandon: 0 };
  const store: Store = {
    ...inner,
    claim: (claim) => answer(++calls.claim, claim),
    abandon(abandon) {
      calls.abandon++;
      return inner.abandon(abandon);
    },
  };
  return { store, calls };
}

test("a claim that fails is tried again after a pause that doubles", async () => {
  const { another, inner, settle, world } = createScene();
  const triedAt: number[] = [];
  const { store } = claimStore(inner, () => {
    triedAt.push(world.now());
    return Promise.reject(new Error("away"));
  });
  await settle(another({ store }).tryRun(request, () => 1));
  expect(triedAt).toEqual([0, 50, 150]);
});

test("a claim that is answered at the very end of its lease is given back, not run", async () => {
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

test("a claim that was answered with no is not given back: there is nothing to give", async () => {
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

test("a grant that comes after its round was refused is given back", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const owner = another().run(request, () => sleep(150).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  // Given up on at 20 ms, applied at 200 ms: by then the second try was refused, and the owner is gone.
  const { store, calls } = claimStore(inner, (count, claim) =>
    count === 1 ? sleep(200).then(() => inner.claim(claim)) : inner.claim(claim),
  );
  const guard = another({ store, storeTimeoutMs: 20, onPending: "reject" });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "pending" });
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 1 });
  expect(await reader.read(request)).toMatchObject({ state: "released", number: 2 });
});

test("a grant that overtakes the refusal of a later try is given back", async () => {
  const { guard: reader, another, inner, settle, sleep, advance } = createScene();
  const owner = another().run(request, () => sleep(125).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  // The second try is refused at 120 ms and hears of it at 138 ms; the first one is granted at 130 ms.
  const { store, calls } = claimStore(inner, async (count, claim) => {
    if (count === 1) await sleep(130);
    const answer = await inner.claim(claim);
    if (count === 2) await sleep(18);
    return answer;
  });
  const guard = another({ store, storeTimeoutMs: 20, onPending: "reject" });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "pending" });
  await advance(500);
  expect(calls).toEqual({ claim: 2, abandon: 1 });
  expect(await reader.read(request)).toMatchObject({ state: "released", number: 2 });
});

test("cancel between claim and work: a grant that comes after the claim was given back and forgotten is given back too", async () => {
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

test("proceed does not apply to a decision: a claim for it that is not answered is given back", async () => {
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

test("when too much waits to be told, proceed does not apply either; one less, and the claim is sent", async () => {
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

/** A world that counts the timers that are armed on it. */
function createCountingTimer() {
  const world = createWorld();
  const noted = { armed: 0 };
  const timer: Timer = {
    now: world.now,
    after(ms, action) {
      let isArmed = true;
      noted.armed++;
      const disarm = () => {
        if (isArmed) noted.armed--;
        isArmed = false;
      };
      const cancel = world.after(ms, () => {
        disarm();
        action();
      });
      return () => {
        disarm();
        cancel();
      };
    },
  };
  async function advanceTo(at: number): Promise<void> {
    let isReached = false;
    world.after(at - world.now(), () => {
      isReached = true;
    });
    await world.run(() => isReached);
  }
  return { timer, noted, advanceTo };
}

test("what is to be said in the background is said at once, then after pauses that double up to a limit", async () => {
  const { timer, noted, advanceTo } = createCountingTimer();
  const background = createBackground({ store: {} as Store, timer }, () => 0.5);
  const triedAt: number[] = [];
  const said = background.persist(1_000, () => {
    triedAt.push(timer.now());
    return triedAt.length < 12 ? Promise.reject(new Error("away")) : Promise.resolve("heard");
  });
  await advanceTo(60_000);
  expect(await said).toBe("heard");
  expect(triedAt).toEqual([0, 25, 75, 175, 375, 775, 1_575, 3_175, 5_675, 8_175, 10_675, 13_175]);
  expect(noted.armed).toBe(0);
});

test("the background is idle when all that was to be said is said, also what was added meanwhile", async () => {
  const { timer, advanceTo } = createCountingTimer();
  const background = createBackground({ store: {} as Store, timer }, () => 0.5);
  const sayAfter = (ms: number, then = () => {}) =>
    background.persist(10_000, () =>
      new Promise<void>((resolve) => void timer.after(ms, resolve)).then(then),
    );
  void sayAfter(100, () => void sayAfter(200));
  let idleAt: number | undefined;
  void background.idle().then(() => {
    idleAt = timer.now();
  });
  await advanceTo(299);
  expect(idleAt).toBeUndefined();
  await advanceTo(301);
  expect(idleAt).toBe(300);
  await background.idle();
});

test("a background that is stopped ends its pauses, tries nothing more, and says that it does not know", async () => {
  const { timer, noted, advanceTo } = createCountingTimer();
  const background = createBackground({ store: {} as Store, timer }, () => 0.5);
  let tries = 0;
  const pausing = background.persist(1_000, () => {
    tries++;
    return Promise.reject(new Error("away"));
  });
  const hanging = background.persist(1_000, () => {
    tries++;
    return new Promise(() => {});
  });
  await advanceTo(30);
  expect(tries).toBe(3);
  background.stop();
  expect(await pausing).toBeUndefined();
  expect(noted.armed).toBe(1);
  // The call that was under way is given up on in its time, and not followed by a pause.
  await advanceTo(1_001);
  expect(noted.armed).toBe(0);
  expect(await hanging).toBeUndefined();
  expect(await background.persist(1_000, () => Promise.resolve(tries++))).toBeUndefined();
  expect(tries).toBe(3);
  expect(noted.armed).toBe(0);
});

test("a bounded call leaves no timer behind, whether it answers, fails, or throws at once", async () => {
  const { timer, noted } = createCountingTimer();
  const caller = { store: {} as Store, timer };
  expect(await bounded(caller, 100, () => Promise.resolve("answer"))).toBe("answer");
  await expect(bounded(caller, 100, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  const throwing = () => {
    throw new Error("at once");
  };
  await expect(bounded(caller, 100, throwing)).rejects.toThrow("at once");
  expect(noted.armed).toBe(0);
});

test("a bounded call that is not answered says so, is told that it is over, and hands on its late answer", async () => {
  const { timer, advanceTo } = createCountingTimer();
  const bounds: Bound[] = [];
  const late: string[] = [];
  const call = (usesSignal: boolean) =>
    bounded(
      { store: { usesSignal } as Store, timer },
      100,
      (bound) => {
        bounds.push(bound);
        return new Promise<string>((resolve) => void timer.after(150, () => resolve("answer")));
      },
      (answer) => late.push(answer),
    ).catch((error: Error) => [error.name, error.message, timer.now()]);
  const calls = [call(true), call(false)];
  await advanceTo(99);
  expect(bounds.map(({ isOver, signal }) => [isOver, signal?.aborted])).toEqual([
    [false, false],
    [false, undefined],
  ]);
  await advanceTo(149);
  const timedOut = ["TimedOut", "the store did not answer within 100 ms", 100];
  expect(await Promise.all(calls)).toEqual([timedOut, timedOut]);
  expect(bounds.map(({ isOver, signal }) => [isOver, signal?.aborted])).toEqual([
    [true, true],
    [true, undefined],
  ]);
  expect(late).toEqual([]);
  await advanceTo(151);
  expect(late).toEqual(["answer", "answer"]);
});

test("every call to a store that says usesSignal is handed a signal", async () => {
  const scene = createScene({ leaseMs: 300, purgeEveryMs: 100, storeTimeoutMs: 1_000 });
  const { inner } = scene;
  const signalled = new Set<string>();
  const note = <T>(name: string, signal: AbortSignal | undefined, answer: T): T => {
    if (signal !== undefined) signalled.add(name);
    return answer;
  };
  const store: Store = {
    ...inner,
    usesSignal: true,
    claim: (claim) => note("claim", claim.signal, inner.claim(claim)),
    complete: (completion) => note("complete", completion.signal, inner.complete(completion)),
    abandon: (abandon) => note("abandon", abandon.signal, inner.abandon(abandon)),
    renew: (renewal) => note("renew", renewal.signal, inner.renew(renewal)),
    read: (id, bound) => note("read", bound?.signal, inner.read(id)),
    purge: (limit, bound) => note("purge", bound?.signal, inner.purge(limit)),
    list: (page) => note(`list ${page.state ?? "all"}`, page.signal, inner.list?.(page) as never),
    forget: (one) => note("forget", one.signal, inner.forget?.(one) as never),
  };
  const guard = scene.another({ store });
  await scene.settle(guard.run(request, () => scene.sleep(150)));
  await guard.run({ ...request, key: "fails" }, () => Promise.reject(new Error("no"))).catch(() => {});
  await guard.listUnknown();
  await guard.forget({ scope: "alice" });
  await guard.ready();
  await scene.settle(guard.close());
  expect([...signalled].sort()).toEqual([
    "abandon",
    "claim",
    "complete",
    "forget",
    "list all",
    "list lapsed",
    "purge",
    "read",
    "renew",
  ]);
});

test("a purge takes bites of 500, stops when nothing is left, and comes again after its time, jittered", async () => {
  const scene = createScene();
  const bites: (readonly [limit: number, at: number])[] = [];
  let left = 1_100;
  const store: Store = {
    ...scene.inner,
    purge(limit) {
      bites.push([limit, scene.world.now()]);
      const removed = Math.min(limit, left);
      left -= removed;
      return Promise.resolve({ removed, more: left > 0 });
    },
  };
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.advance(2_500);
  expect(bites).toEqual([
    [500, 1_000],
    [500, 1_000],
    [500, 1_000],
    [500, 2_000],
  ]);
  expect(scene.events).toEqual([{ kind: "purged", removed: 1_100 }]);
  await scene.settle(guard.close());
  await scene.advance(10_000);
  expect(bites).toHaveLength(4);
});

test("a store that never comes to the end of a purge is left alone after a thousand bites", async () => {
  const scene = createScene();
  let bites = 0;
  const store: Store = {
    ...scene.inner,
    purge() {
      bites++;
      return Promise.resolve({ removed: 1, more: true });
    },
  };
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.advance(1_001);
  expect(bites).toBe(1_000);
  expect(scene.events).toEqual([{ kind: "purged", removed: 1_000 }]);
  await scene.settle(guard.close());
});

test("a purge that is under way when the guard closes takes no further bite, and what it removed before a failure is told", async () => {
  const scene = createScene();
  let bites = 0;
  const store: Store = {
    ...scene.inner,
    async purge() {
      bites++;
      await scene.sleep(10);
      if (bites === 3) throw new Error("away");
      return { removed: 5, more: true };
    },
  };
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.advance(1_500);
  expect(scene.events).toEqual([{ kind: "purged", removed: 10 }]);
  await scene.advance(535);
  expect(bites).toBe(4);
  await scene.settle(guard.close());
  await scene.advance(10_000);
  expect(bites).toBe(4);
});

test("a waiter that is woken for nothing claims again at once the first time, and then every five milliseconds", async () => {
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

test("a waiter whose claim is answered too late gives it back and goes on with a fresh token", async () => {
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

test("a waiter whose time is up when its claim is answered too late is told unavailable", async () => {
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
  expect(kinds()).toEqual(["claimed", "abandoned", "waited"]);
});

test("a caller that goes while its claim is under way is not waited for", async () => {
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

test("close between claim and work: the claim is given back as unrun, and the caller told guard-closed", async () => {
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

test("close of a guard that does nothing is over at once, and leaves no timer behind", async () => {
  const { guard, settle, world } = createScene({ drainMs: 5_000 });
  await guard.run(request, () => 1);
  expect(await settle(guard.close())).toEqual([]);
  await world.run(() => false);
  expect(world.now()).toBe(0);
});

test("close waits until the outcome of the last work is told to the store", async () => {
  const { guard, another, store, settle, world } = createScene({ completeWaitMs: 10, drainMs: 5_000 });
  for (let i = 0; i < 3; i++) store.plan("complete", "refuse");
  await settle(guard.run(request, () => "kept"));
  expect(await settle(guard.close())).toEqual([]);
  // Refused at 0 ms, twice, and at 25 ms; accepted after another 50 ms.
  expect(world.now()).toBe(75);
  expect(await another().run(request, () => "again")).toBe("kept");
});

test("close reports exactly what still runs, and tells the observer that it was given up", async () => {
  const { guard, settle, advance, sleep, events } = createScene({ drainMs: 100 });
  await guard.run({ ...request, key: "done" }, () => 1);
  guard.run(request, () => sleep(1_000)).catch(() => {});
  await advance(1);
  expect(await settle(guard.close())).toEqual([
    { operation: "charge", keyHash: expect.any(String), fence: START_FENCE + 1 },
  ]);
  expect(events.at(-1)).toMatchObject({ kind: "lease-lost", fence: START_FENCE + 1, reason: "guard-closed" });
});

test("proceed: how long the work ran counts from its start, and it has no fence and no number", async () => {
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

/** A claim of a held key that lapsed: its fence. */
async function lapse(scene: ReturnType<typeof createScene>): Promise<number> {
  const dying = scene.another({ onFailure: "unknown" });
  await dying.run(request, () => Promise.reject(new Error("no"))).catch(() => {});
  return (await scene.guard.read(request))?.fence ?? 0;
}

test("reconcile leaves no lease and nothing running behind", async () => {
  for (const status of ["done", "not-done", "unknown"] as const) {
    const scene = createScene({ onLapsed: "hold", leaseMs: 300 });
    await lapse(scene);
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

test("reconcile that never comes to an end is reported at close, and its signal fires", async () => {
  const scene = createScene({ onLapsed: "hold", drainMs: 100 });
  await lapse(scene);
  const reasons: unknown[] = [];
  const reconcile = ({ signal }: { signal: AbortSignal }) =>
    new Promise<never>(() => signal.addEventListener("abort", () => reasons.push(signal.reason)));
  scene.guard.tryRun({ ...request, reconcile }, () => 1).catch(() => {});
  await scene.advance(1);
  expect(await scene.settle(scene.guard.close())).toHaveLength(1);
  expect(reasons).toEqual(["guard-closed"]);
});

test("reconcile that says done with what cannot be kept is done all the same", async () => {
  const scene = createScene({ onLapsed: "hold", maxOutcomeBytes: 100 });
  await lapse(scene);
  const reconcile = async () => ({ status: "done", value: "x".repeat(200) }) as const;
  expect(await scene.guard.tryRun({ ...request, reconcile }, () => 1)).toEqual({
    status: "not-kept",
    reason: "too-large",
  });
});

test("reconcile that loses its claim to another decides nothing", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene);
  const other = scene.another();
  let asked = 0;
  const { store } = claimStore(scene.inner, async (count, claim) => {
    // Somebody else decides between the claim that was told unknown and the one for reconcile.
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

test("read shows the whole of a record, and nothing else", async () => {
  const scene = createScene({ leaseMs: 1_000, retentionMs: 5_000, onLapsed: "hold" });
  await scene.settle(scene.guard.run(request, () => scene.sleep(100).then(() => "value")));
  expect(await scene.guard.read(request)).toEqual({
    keyHash: expect.stringMatching(/^[0-9a-f]{16}$/),
    operation: "charge",
    scope: "alice",
    key: "order-1",
    state: "completed",
    fence: START_FENCE,
    number: 1,
    held: true,
    claimedAt: 1_700_000_000_000,
    leaseLeftMs: 0,
    completedAt: 1_700_000_000_100,
    keptUntil: 1_700_000_005_100,
    outcome: { kind: "value", value: "value" },
  });
});

test("listUnknown asks for lapsed records of its namespace, a hundred at a time unless told otherwise", async () => {
  const { another, inner } = createScene();
  const asked: unknown[] = [];
  const store: Store = {
    ...inner,
    list(page) {
      asked.push(page);
      return Promise.resolve({ records: [], next: "there" });
    },
  };
  const guard = another({ store });
  expect(await guard.listUnknown()).toEqual({ records: [], next: "there" });
  await guard.listUnknown({ scope: "alice", limit: 1_000, after: "here" });
  expect(asked).toEqual([
    {
      namespace: "scene",
      scope: undefined,
      state: "lapsed",
      limit: 100,
      after: undefined,
      signal: undefined,
    },
    { namespace: "scene", scope: "alice", state: "lapsed", limit: 1_000, after: "here", signal: undefined },
  ]);
  await expect(guard.listUnknown({ limit: 1_001 })).rejects.toThrow("limit is 1001");
  const wrong = guard.listUnknown as (page: unknown) => Promise<unknown>;
  await expect(wrong({ scope: null })).rejects.toMatchObject({ code: "scope-missing" });
  for (const page of [{ scope: 5 }, { limit: 1.5 }, { limit: "5" }, { after: 5 }])
    await expect(wrong(page)).rejects.toMatchObject({ code: "options-invalid" });
});

test("forget of a scope goes from page to page, and does not count what went by itself", async () => {
  const { another, inner } = createScene();
  const guard = another();
  for (const key of ["a", "b", "c"]) await guard.run({ ...request, key }, () => key);
  const pages: unknown[] = [];
  const store: Store = {
    ...inner,
    async list(page) {
      pages.push([page.scope, page.limit, page.after]);
      const all = (await inner.list?.({ ...page, after: undefined }))?.records ?? [];
      return page.after === undefined
        ? { records: all.slice(0, 2), next: "second" }
        : { records: all.slice(2), next: undefined };
    },
    forget: () => Promise.resolve(false),
    read: (id) => (pages.length === 1 ? Promise.resolve(undefined) : inner.read(id)),
  };
  expect(await another({ store }).forget({ scope: "alice" })).toEqual({ forgotten: 0, inFlight: 1 });
  expect(pages).toEqual([
    ["alice", 100, undefined],
    ["alice", 100, "second"],
  ]);
});

test("ready reads a record that cannot exist, and changes nothing", async () => {
  const { another, inner } = createScene();
  const ids: string[] = [];
  const store: Store = {
    ...inner,
    read(id) {
      ids.push(id);
      return inner.read(id);
    },
  };
  await another({ store }).ready();
  expect(ids).toEqual(["0".repeat(64)]);
});

test("an operator's call says unavailable with the cause, whatever the store threw, and hands its own refusals on", async () => {
  const { another, inner } = createScene();
  const failingWith = (error: unknown) => another({ store: { ...inner, read: () => Promise.reject(error) } });
  await expect(failingWith(new Error("cut off")).read(request)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the store cannot answer: cut off."),
    cause: { message: "cut off" },
  });
  await expect(failingWith("no words").ready()).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the store cannot answer: no words."),
    cause: "no words",
  });
  const full = new NevertwiceError("store-full", "no room");
  await expect(failingWith(full).forget(request)).rejects.toBe(full);
});

test("a decision that the store does not confirm, or refuses, is not called decided", async () => {
  for (const [decision, method] of [
    [{ status: "done", value: 1 }, "complete"],
    [{ status: "not-done" }, "abandon"],
  ] as const) {
    const scene = createScene({ onLapsed: "hold", completeWaitMs: 20, leaseMs: 60_000 });
    const fence = await lapse(scene);
    const answering = (answer: () => Promise<boolean>) =>
      scene.another({ store: { ...scene.inner, [method]: answer } });
    const hanging = answering(() => new Promise(() => {}));
    await expect(scene.settle(hanging.resolve({ ...request, fence }, decision))).rejects.toMatchObject({
      code: "unavailable",
    });
    await scene.advance(70_000);
    const { fence: next = 0 } = (await scene.guard.read(request)) ?? {};
    const refusing = answering(() => Promise.resolve(false));
    expect(await scene.settle(refusing.resolve({ ...request, fence: next }, decision))).toBe(false);
  }
});

test("a decision wants a fence that is a whole number", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene);
  const resolve = scene.guard.resolve as (subject: object, decision: object) => Promise<boolean>;
  for (const wrong of [undefined, null, String(fence), fence + 0.5, Number.NaN])
    await expect(resolve({ ...request, fence: wrong }, { status: "not-done" })).rejects.toMatchObject({
      code: "options-invalid",
    });
  expect((await scene.guard.read(request))?.fence).toBe(fence);
});

test("notDone without a cause gives the caller an error that says so", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  const run = guard.run(request, (attempt) => {
    throw attempt.notDone();
  });
  expect(await run.catch((thrown: unknown) => thrown)).toEqual(new Error("nothing was done"));
  expect((await guard.read(request))?.state).toBe("released");
});

test("an error made by an earlier attempt's notDone does not speak for a later one", async () => {
  const { guard } = createScene({ onFailure: "unknown" });
  let kept: unknown;
  await guard
    .run(request, (attempt) => {
      kept = attempt.notDone(new Error("first"));
      throw kept;
    })
    .catch(() => {});
  expect((await guard.read(request))?.state).toBe("released");
  await expect(guard.run(request, () => Promise.reject(kept))).rejects.toBe(kept);
  expect((await guard.read(request))?.state).toBe("lapsed");
});

test("an onFailure that answers with no disposition means that nobody knows", async () => {
  const { guard } = createScene({ onFailure: (() => "maybe") as unknown as () => "release" });
  await expect(guard.run(request, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect((await guard.read(request))?.state).toBe("lapsed");
});

test("what is thrown need not be an error: it is released, remembered and replayed as it is", async () => {
  const { guard } = createScene();
  for (const thrown of [null, undefined, "text", 5])
    await expect(guard.run(request, () => Promise.reject(thrown))).rejects.toBe(thrown);
  const remembering = { ...request, onFailure: "remember" } as const;
  for (let i = 0; i < 2; i++)
    await expect(guard.run(remembering, () => Promise.reject("text"))).rejects.toBe("text");
});

test("an attempt overtaken without its knowing, whose error is to be remembered, is given the outcome that answers", async () => {
  const { guard, another, settle, advance, sleep, jump } = createScene({
    onFailure: "remember",
    leaseMs: 1_000,
  });
  const first = guard.tryRun(request, () => sleep(100).then(() => Promise.reject(new Error("first"))));
  first.catch(() => {});
  await advance(10);
  jump(5_000);
  await another().run(request, () => "second");
  expect(await settle(first)).toEqual({ status: "replayed", value: "second" });
});

test("an attempt overtaken without its knowing, whose error is to be remembered, throws it while the other runs", async () => {
  const { guard, another, settle, advance, sleep, jump } = createScene({
    onFailure: "remember",
    leaseMs: 1_000,
  });
  const first = guard.tryRun(request, () => sleep(100).then(() => Promise.reject(new Error("first"))));
  first.catch(() => {});
  await advance(10);
  jump(5_000);
  const second = another().run(request, () => sleep(500).then(() => "second"));
  await expect(settle(first)).rejects.toThrow("first");
  expect(await settle(second)).toBe("second");
});

test("run throws for lease-lost, and says what happened", async () => {
  const { guard, another, store, sleep, settle } = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const late = guard.run(request, () => sleep(300));
  late.catch(() => {});
  await settle(sleep(150));
  const second = another().run(request, () => sleep(500));
  await expect(settle(late)).rejects.toMatchObject({
    code: "lease-lost",
    message: expect.stringContaining("another attempt held the key"),
  });
  await settle(second);
});

test("a caller's signal is let go when the call is over, so that a long-lived one gathers nothing", async () => {
  const { guard, settle } = createScene();
  const caller = new AbortController();
  const call = { ...request, signal: caller.signal };
  expect(await settle(guard.run(call, () => "value"))).toBe("value");
  await settle(guard.run({ ...call, key: "fails" }, () => Promise.reject(new Error("no")))).catch(() => {});
  expect(getEventListeners(caller.signal, "abort")).toEqual([]);
});

test("a guard's own defaults: it purges every minute, drains for half a minute, and its namespace is default", async () => {
  const { world, inner, advance, settle } = createScene();
  const purgedAt: number[] = [];
  const namespaces: string[] = [];
  const guard = createEngine(
    {
      store: {
        ...inner,
        claim(claim) {
          namespaces.push(claim.parts.namespace);
          return inner.claim(claim);
        },
        purge() {
          purgedAt.push(world.now());
          return Promise.resolve({ removed: 0, more: false });
        },
      },
    },
    { timer: world, random: () => 0.5, newToken: randomToken },
  );
  guard.run(request, () => new Promise(() => {})).catch(() => {});
  await advance(130_000);
  expect(await settle(guard.close())).toHaveLength(1);
  expect(world.now()).toBe(160_000);
  expect(purgedAt).toEqual([60_000, 120_000]);
  expect(namespaces).toEqual(["default"]);
});

test("purges are spread from half to one and a half times their interval, and keep no process alive", async () => {
  for (const [random, at] of [
    [0, 500],
    [0.999, 1_499],
  ] as const) {
    const { inner } = createScene();
    const armed: unknown[] = [];
    const timer: Timer = {
      now: () => 0,
      after(ms, _, background) {
        armed.push([Math.floor(ms), background]);
        return () => {};
      },
    };
    createEngine(
      { store: inner, purgeEveryMs: 1_000 },
      { timer, random: () => random, newToken: randomToken },
    );
    expect(armed).toEqual([[at, true]]);
  }
});

test("tokens are 128 bits of base64url, and never the same twice", () => {
  const tokens = [firstToken, ...Array.from({ length: 2_000 }, randomToken)];
  expect(new Set(tokens).size).toBe(2_001);
  for (const token of tokens) expect(token).toMatch(/^[A-Za-z0-9_-]{22}$/);
});

test("a caller that meets a held claim which lapsed is told unknown, and the observer that it lapsed", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene);
  expect(await scene.guard.tryRun(request, () => 1)).toEqual({ status: "unknown", fence });
  expect(scene.kinds()).toEqual(["claimed", "abandoned", "lapsed"]);
});

test("reconcile decides before its caller is answered, also one that does not wait", async () => {
  for (const [decision, method, result] of [
    [{ status: "done", value: "found" }, "complete", { status: "replayed", value: "found" }],
    [{ status: "not-done" }, "abandon", { status: "ran", value: "work", recorded: true }],
  ] as const) {
    const scene = createScene({ onLapsed: "hold", onPending: "reject" });
    const fence = await lapse(scene);
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

test("a failure is told to its caller when the store has confirmed that the key is free", async () => {
  const { another, inner, sleep, settle, world } = createScene();
  const store: Store = { ...inner, abandon: (abandon) => sleep(30).then(() => inner.abandon(abandon)) };
  const run = another({ store }).run(request, () => Promise.reject(new Error("no")));
  await expect(settle(run)).rejects.toThrow("no");
  expect(world.now()).toBe(30);
});

test("cancel: the wait of a caller that goes is over at once, and its subscription with it", async () => {
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

test("a guard that is closed leaves no purge armed, whether one was under way or not", async () => {
  const { timer, noted, advanceTo } = createCountingTimer();
  const store: Store = {
    ...createScene().inner,
    purge: () => new Promise((resolve) => void timer.after(10, () => resolve({ removed: 0, more: false }))),
  };
  const ports = { timer, random: () => 0.5, newToken: randomToken };
  const early = createEngine({ store, purgeEveryMs: 1_000 }, ports);
  await advanceTo(500);
  expect(noted.armed).toBe(1);
  await early.close();
  expect(noted.armed).toBe(0);

  const purging = createEngine({ store, purgeEveryMs: 1_000 }, ports);
  await advanceTo(1_505);
  await purging.close();
  await advanceTo(1_600);
  expect(noted.armed).toBe(0);
});

test("a stale decision touches nothing, and a decision is told to the observer with the fence of its own claim", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene);
  const decide = (given: number) =>
    scene.guard.resolve({ ...request, fence: given }, { status: "done", value: 1 });
  expect(await decide(fence + 1)).toBe(false);
  expect(await decide(fence)).toBe(true);
  expect(await decide(fence)).toBe(false);
  expect(scene.store.calls).toMatchObject({ claim: 3, complete: 1, abandon: 0, read: 1 });
  expect(scene.kinds()).toEqual(["claimed", "abandoned", "completed"]);
  expect(scene.events[2]).toMatchObject({ kind: "completed", fence: fence + 1 });
});

test("a decision whose record is gone, or was completed by another, is not called decided", async () => {
  for (const found of [undefined, { state: "completed", token: "another's", outcome: "1" }]) {
    const scene = createScene({ onLapsed: "hold" });
    const fence = await lapse(scene);
    const guard = scene.another({
      store: {
        ...scene.inner,
        complete: () => Promise.resolve(false),
        read: () => Promise.resolve(found as StoreRecord | undefined),
      },
    });
    expect(await guard.resolve({ ...request, fence }, { status: "done", value: 1 })).toBe(false);
  }
});

test("an error that is to be remembered but cannot be kept is thrown as it is, frozen or not", async () => {
  const { guard } = createScene({ onFailure: "remember", maxOutcomeBytes: 100 });
  const error = Object.freeze(new Error("x".repeat(200)));
  await expect(guard.run(request, () => Promise.reject(error))).rejects.toBe(error);
  expect(await guard.tryRun(request, () => 1)).toEqual({ status: "not-kept", reason: "too-large" });
});

test("the stack of the first caller's copy is a property as every error's is", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  const original = new Error("here");
  const copy = await guard.run(request, () => Promise.reject(original)).catch((thrown: unknown) => thrown);
  expect(Object.getOwnPropertyDescriptor(copy, "stack")).toEqual({
    value: original.stack,
    configurable: true,
    writable: true,
    enumerable: false,
  });
});

test("proceed: work whose key another attempt holds ran all the same, and is called unrecorded", async () => {
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

test("forget of a subject that lacks its key or its operation is refused, and does not erase the scope", async () => {
  const { guard } = createScene();
  await guard.run(request, () => "kept");
  const forget = guard.forget as (what: unknown) => Promise<unknown>;
  const { operation, scope, key } = request;
  await expect(forget({ operation, scope })).rejects.toMatchObject({ code: "key-missing" });
  await expect(forget({ scope, key })).rejects.toMatchObject({ code: "options-invalid" });
  await expect(forget({ scope, tenant: "alice" })).rejects.toMatchObject({ code: "options-invalid" });
  await expect(forget(null)).rejects.toMatchObject({ code: "options-invalid" });
  expect(await guard.run(request, () => "again")).toBe("kept");
});

test("a store that lacks a single method is no store, and is told which", () => {
  const { inner } = createScene();
  for (const method of ["claim", "complete", "abandon", "renew", "read", "purge", "close"] as const)
    expect(() => createEngine({ store: { ...inner, [method]: undefined } as unknown as Store })).toThrow(
      `store is no store: it lacks ${method}.`,
    );
});

test("where nobody watches no event is made", () => {
  expect(createEmit(undefined)).toBeUndefined();
});
