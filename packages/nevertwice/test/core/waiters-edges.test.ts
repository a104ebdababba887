/**
 * Tests the polling that waiters share: when it reads the record, which waiters it wakes, and that it leaves nothing
 * behind.
 */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import type { Store, StoreRecord, WatchRequest } from "../../src/core/store.ts";
import { createWaiters, type WaitRequest } from "../../src/core/waiters.ts";
import { createCountingTimer } from "./scene.ts";

const PENDING = { state: "pending", leaseLeftMs: 60_000 } as StoreRecord;
const COMPLETED = { state: "completed", leaseLeftMs: 0 } as StoreRecord;

interface Setting {
  readonly read?: () => Promise<StoreRecord | undefined>;
  /** Undefined if the store cannot push. */
  readonly watch?: (request: WatchRequest) => Promise<void>;
  readonly random?: number;
}

/** Waiters on a store that notes when it is read. */
function createSetting({ read = () => Promise.resolve(PENDING), watch, random = 0.5 }: Setting = {}) {
  const { world, timer, noted: timers } = createCountingTimer();
  const looks: number[] = [];
  const noted = {
    watched: 0,
    unwatched: 0,
    get armed() {
      return timers.armed;
    },
  };
  const store = {
    read() {
      looks.push(Math.round(world.now()));
      return read();
    },
    ...(watch && {
      async watch(request: WatchRequest) {
        noted.watched++;
        await watch(request);
        return () => {
          noted.unwatched++;
        };
      },
    }),
  } as unknown as Store;
  const waiting = createWaiters({ store, timer }, () => random);
  return {
    waiting,
    looks,
    noted,
    sleep: (ms: number) => new Promise<void>((resolve) => void world.after(ms, resolve)),
    /** Starts to wait, and returns a list that receives the time when the wait is over. */
    wait(request: Partial<WaitRequest> = {}): number[] {
      const endedAt: number[] = [];
      void waiting
        .wait({
          id: "a",
          leaseLeftMs: 60_000,
          longestMs: 60_000,
          leastMs: 0,
          storeTimeoutMs: 500,
          signal: undefined,
          ...request,
        })
        .then(() => endedAt.push(world.now()));
      return endedAt;
    },
    async advanceTo(at: number) {
      let isReached = false;
      world.after(at - world.now(), () => {
        isReached = true;
      });
      await world.run(() => isReached);
    },
  };
}

const pushing = () => Promise.resolve();

test("without pushes: reads at once, then less and less often, but at least every second", async () => {
  const { wait, looks, advanceTo } = createSetting();
  wait();
  await advanceTo(6_000);
  expect(looks).toEqual([0, 20, 52, 103, 185, 316, 526, 861, 1_398, 2_257, 3_257, 4_257, 5_257]);
});

test.each([
  [0, [0, 10, 26, 52, 93]],
  [1, [0, 30, 78]],
])("polls are spread from half to one and a half times their length: %d", async (random, expected) => {
  const { wait, looks, advanceTo } = createSetting({ random });
  wait();
  await advanceTo(100);
  expect(looks).toEqual(expected);
});

test("with pushes: reads once after the subscription, and then about every 0.7 seconds", async () => {
  const setting = createSetting({ watch: () => setting.sleep(30) });
  setting.wait();
  await setting.advanceTo(2_200);
  expect(setting.looks).toEqual([30, 680, 1_330, 1_980]);
  expect(setting.noted.watched).toBe(1);
});

test("reads every second if the subscription fails", async () => {
  const { wait, looks, advanceTo } = createSetting({ watch: () => Promise.reject(new Error("no")) });
  wait();
  await advanceTo(3_500);
  expect(looks).toEqual([0, 1_000, 2_000, 3_000]);
});

test("reads when the lease ends, as the claim reported it, and then every few milliseconds", async () => {
  const { wait, looks, advanceTo } = createSetting({
    watch: pushing,
    read: () => Promise.reject(new Error("away")),
  });
  await advanceTo(1_000);
  wait({ leaseLeftMs: 300 });
  await advanceTo(1_312);
  expect(looks).toEqual([1_000, 1_300, 1_305, 1_310]);
});

test("a read learns that the lease was renewed", async () => {
  const left = [500, 200];
  const setting = createSetting({
    watch: pushing,
    read: () =>
      Promise.resolve(left.length > 0 ? { ...PENDING, leaseLeftMs: left.shift() as number } : COMPLETED),
  });
  await setting.advanceTo(1_000);
  const endedAt = setting.wait({ leaseLeftMs: 100 });
  await setting.advanceTo(3_000);
  expect(setting.looks).toEqual([1_000, 1_500, 1_700]);
  expect(endedAt).toEqual([1_700]);
});

test("a read that hangs times out after storeTimeoutMs, and another follows", async () => {
  const { wait, looks, advanceTo } = createSetting({ read: () => new Promise(() => {}) });
  wait({ storeTimeoutMs: 500 });
  await advanceTo(1_600);
  expect(looks).toEqual([0, 520, 1_052]);
});

test.each([undefined, COMPLETED, { ...PENDING, state: "lapsed" } as StoreRecord])(
  "a read that finds the record gone or changed ends the wait",
  async (found) => {
    const { wait, noted, advanceTo } = createSetting({ watch: pushing, read: () => Promise.resolve(found) });
    const endedAt = wait();
    await advanceTo(10);
    expect(endedAt).toEqual([0]);
    expect(noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
  },
);

test("a push wakes all waiters at once, and leaves no timer and no subscription behind", async () => {
  let push = () => {};
  const { wait, noted, looks, advanceTo } = createSetting({
    watch: async ({ wake }) => {
      push = wake;
    },
  });
  const first = wait();
  const second = wait();
  await advanceTo(100);
  push();
  push();
  await advanceTo(20_000);
  expect([first, second]).toEqual([[100], [100]]);
  expect(noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
  expect(looks).toEqual([0]);
});

test("a waiter that waits again after a wake subscribes again", async () => {
  const pushes: (() => void)[] = [];
  const { wait, noted, advanceTo } = createSetting({
    watch: async ({ wake }) => {
      pushes.push(wake);
    },
  });
  wait();
  await advanceTo(100);
  pushes[0]?.();
  await advanceTo(200);
  const again = wait();
  await advanceTo(300);
  // A push of the first subscription no longer wakes any waiter.
  pushes[0]?.();
  await advanceTo(400);
  expect(again).toEqual([]);
  pushes[1]?.();
  await advanceTo(500);
  expect(again).toEqual([400]);
  expect(noted).toEqual({ armed: 0, watched: 2, unwatched: 2 });
});

test("a push during a read ends the wait, and the answer of the read starts nothing", async () => {
  let push = () => {};
  const setting = createSetting({
    watch: async ({ wake }) => {
      push = wake;
    },
    read: () => setting.sleep(100).then(() => PENDING),
  });
  const endedAt = setting.wait();
  await setting.advanceTo(50);
  push();
  await setting.advanceTo(20_000);
  expect(endedAt).toEqual([50]);
  expect(setting.looks).toEqual([0]);
  expect(setting.noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
});

test("a subscription that succeeds after the wait is over is ended at once, without a read", async () => {
  const setting = createSetting({ watch: () => setting.sleep(100) });
  const endedAt = setting.wait({ longestMs: 40 });
  await setting.advanceTo(1_000);
  expect(endedAt).toEqual([40]);
  expect(setting.looks).toEqual([]);
  expect(setting.noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
});

test("a subscription that fails after the wait is over is not followed by a read", async () => {
  const setting = createSetting({
    watch: () => setting.sleep(100).then(() => Promise.reject(new Error("no"))),
  });
  setting.wait({ longestMs: 40 });
  await setting.advanceTo(5_000);
  expect(setting.looks).toEqual([]);
  expect(setting.noted.armed).toBe(0);
});

test("each waiter waits for its own longest time; polling ends with the last one", async () => {
  const { wait, noted, looks, advanceTo } = createSetting({ watch: pushing });
  const short = wait({ longestMs: 300 });
  const long = wait({ longestMs: 1_500 });
  await advanceTo(400);
  expect(short).toEqual([300]);
  expect(noted).toEqual({ armed: 2, watched: 1, unwatched: 0 });
  await advanceTo(20_000);
  expect(long).toEqual([1_500]);
  expect(looks).toEqual([0, 650, 1_300]);
  expect(noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
});

test("a waiter that is woken early waits for at least leastMs", async () => {
  const { wait, noted, advanceTo } = createSetting({ read: () => Promise.resolve(COMPLETED) });
  await advanceTo(1_000);
  const early = wait({ leastMs: 5 });
  await advanceTo(2_000);
  expect(early).toEqual([1_005]);
  expect(noted.armed).toBe(0);
});

test("does not read or subscribe for a caller that cancelled before it waits", async () => {
  const { wait, looks, noted, advanceTo } = createSetting({ watch: pushing });
  const endedAt = wait({ signal: AbortSignal.abort() });
  await advanceTo(100);
  expect(endedAt).toEqual([0]);
  expect(looks).toEqual([]);
  expect(noted).toEqual({ armed: 0, watched: 0, unwatched: 0 });
});

test("a caller that cancels stops waiting at once, even before leastMs, and its listener is removed", async () => {
  const { wait, noted, advanceTo } = createSetting({ watch: pushing });
  const caller = new AbortController();
  const endedAt = wait({ leastMs: 500, signal: caller.signal });
  await advanceTo(100);
  expect(getEventListeners(caller.signal, "abort")).toHaveLength(1);
  caller.abort();
  await advanceTo(1_000);
  expect(endedAt).toEqual([100]);
  expect(noted).toEqual({ armed: 0, watched: 1, unwatched: 1 });
});

test("removes its listener from the caller's signal when the wait is over, so a long-lived signal collects none", async () => {
  const { wait, advanceTo } = createSetting({ watch: pushing });
  const caller = new AbortController();
  const endedAt = wait({ longestMs: 100, signal: caller.signal });
  await advanceTo(200);
  expect(endedAt).toEqual([100]);
  expect(getEventListeners(caller.signal, "abort")).toHaveLength(0);
});

test("wakeAll wakes the waiters of every record, and leaves no timer and no subscription behind", async () => {
  const { waiting, wait, noted, advanceTo } = createSetting({ watch: pushing });
  const ended = [wait({ id: "a" }), wait({ id: "b" }), wait({ id: "b" })];
  await advanceTo(100);
  waiting.wakeAll();
  await advanceTo(200);
  expect(ended).toEqual([[100], [100], [100]]);
  expect(noted).toEqual({ armed: 0, watched: 2, unwatched: 2 });
});
