/** Tests how often a guard purges, how much at a time, and when it stops. */
import { expect, test } from "vitest";
import type { Timer } from "../../src/core/clock.ts";
import { createEngine } from "../../src/core/engine.ts";
import type { Store } from "../../src/core/store.ts";
import { randomToken } from "../../src/core/token.ts";
import { createCountingTimer, createScene } from "./scene.ts";

const SUBJECT = { operation: "charge", key: "order-1" };

test("purges in batches of 500, stops when nothing is left, and purges again after its interval with jitter", async () => {
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
  await scene.settle(guard.read(SUBJECT));
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

test("pauses between two batches for four times as long as a batch took, without a backlog", async () => {
  const scene = createScene();
  const bites: number[] = [];
  const store: Store = {
    ...scene.inner,
    async purge() {
      bites.push(scene.world.now());
      await scene.sleep(10 * bites.length);
      return { removed: 50, more: bites.length < 3 };
    },
  };
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(1_500);
  expect(bites).toEqual([1_000, 1_050, 1_150]);
  await scene.settle(guard.close());
});

/** A store whose purges take as long as `tookMs` says, and always leave something. */
function backlogOf(scene: ReturnType<typeof createScene>, tookMs: (bite: number) => number, removes = 500) {
  const starts: number[] = [];
  const store: Store = {
    ...scene.inner,
    async purge() {
      starts.push(scene.world.now());
      await scene.sleep(tookMs(starts.length));
      return { removed: removes, more: true };
    },
  };
  const pauses = () => starts.slice(1).map((at, index) => at - (starts[index] ?? 0) - tookMs(index + 1));
  return { store, starts, pauses };
}

test("purges up to half of the time while there is a backlog, and does not wait for its interval after a thousand batches", async () => {
  const scene = createScene();
  const { store, starts, pauses } = backlogOf(scene, () => 10);
  const guard = scene.another({ store, purgeEveryMs: 20_000 });
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(30_000 + 1_500 * 20);
  expect(pauses()[0]).toBeCloseTo(36);
  expect(pauses()[30]).toBeCloseTo(10);
  expect(starts.length).toBeGreaterThan(1_500);
  expect(Math.max(...pauses())).toBeCloseTo(36);
  expect(scene.events[0]).toEqual({ kind: "purged", removed: 500_000 });
  await scene.settle(guard.close());
});

test("pauses longer again while a batch takes more than twice as long as before: the store is busy with claims", async () => {
  const scene = createScene();
  const { store, pauses } = backlogOf(scene, (bite) => (bite > 40 && bite <= 42 ? 30 : 10));
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(5_000);
  expect(pauses()[39]).toBeCloseTo(10);
  expect(pauses()[40]).toBeCloseTo(60);
  expect(pauses()[41]).toBeCloseTo(120);
  expect(pauses()[42]).toBeCloseTo(36);
  expect(pauses()[60]).toBeCloseTo(10);
  await scene.settle(guard.close());
});

test("a store that has more to look at and nothing to remove waits for the next interval after a thousand batches", async () => {
  const scene = createScene();
  const { store, starts } = backlogOf(scene, () => 0, 0);
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(1_001);
  expect(starts).toHaveLength(1_000);
  expect(scene.events).toEqual([]);
  await scene.settle(guard.close());
});

test("a purge by hand ends after a thousand batches", async () => {
  const scene = createScene();
  const { store } = backlogOf(scene, () => 0);
  const guard = scene.another({ store, purgeEveryMs: 0 });
  expect(await scene.settle(guard.purge())).toBe(500_000);
  await scene.settle(guard.close());
});

test("a purge that is running when the guard closes sends no further batch, and records removed before a failure are reported", async () => {
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
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(1_500);
  expect(scene.events).toEqual([{ kind: "purged", removed: 10 }]);
  await scene.advance(615);
  expect(bites).toBe(4);
  await scene.settle(guard.close());
  await scene.advance(10_000);
  expect(bites).toBe(4);
});

test("purges start with the first call, are spread from half to one and a half times their interval, and keep no process alive", async () => {
  for (const [random, at] of [
    [0, 500],
    [0.999, 1_499],
  ] as const) {
    const { inner } = createScene();
    const armed: unknown[] = [];
    const timer: Timer = {
      now: () => 0,
      after(ms, _, background) {
        if (background) armed.push(Math.floor(ms));
        return () => {};
      },
    };
    const guard = createEngine(
      { store: inner, purgeEveryMs: 1_000 },
      { timer, random: () => random, newToken: randomToken },
    );
    expect(armed).toEqual([]);
    for (let calls = 0; calls < 3; calls++) await guard.read(SUBJECT);
    expect(armed).toEqual([at]);
  }
});

test("a guard with purgeEveryMs 0 does not purge", async () => {
  const { timer, noted } = createCountingTimer();
  const guard = createEngine(
    { store: createScene().inner, purgeEveryMs: 0 },
    { timer, random: () => 0.5, newToken: randomToken },
  );
  await guard.read(SUBJECT);
  expect(noted.armed).toBe(0);
});

test("close leaves no purge timer behind, whether or not a purge was running", async () => {
  const { timer, noted, advanceTo } = createCountingTimer();
  const store: Store = {
    ...createScene().inner,
    purge: () => new Promise((resolve) => void timer.after(10, () => resolve({ removed: 0, more: false }))),
  };
  const ports = { timer, random: () => 0.5, newToken: randomToken };
  const early = createEngine({ store, purgeEveryMs: 1_000 }, ports);
  await early.read(SUBJECT);
  await advanceTo(500);
  expect(noted.armed).toBe(1);
  await early.close();
  expect(noted.armed).toBe(0);

  const purging = createEngine({ store, purgeEveryMs: 1_000 }, ports);
  await purging.read(SUBJECT);
  await advanceTo(1_505);
  await purging.close();
  await advanceTo(1_600);
  expect(noted.armed).toBe(0);
});

test("purge removes what has expired, with its pauses, and says how many records that were", async () => {
  const scene = createScene();
  let left = 1_100;
  const store: Store = {
    ...scene.inner,
    purge(limit) {
      const removed = Math.min(limit, left);
      left -= removed;
      return Promise.resolve({ removed, more: left > 0 });
    },
  };
  const guard = scene.another({ store });
  expect(await scene.settle(guard.purge())).toBe(1_100);
  expect(await scene.settle(guard.purge())).toBe(0);
  expect(scene.events).toEqual([{ kind: "purged", removed: 1_100 }]);
  await scene.settle(guard.close());
  await expect(guard.purge()).rejects.toMatchObject({ code: "guard-closed" });
});

test("purge throws unavailable if the store fails, and sets no timer", async () => {
  const { timer, noted } = createCountingTimer();
  const store: Store = { ...createScene().inner, purge: () => Promise.reject(new Error("away")) };
  const ports = { timer, random: () => 0.5, newToken: randomToken };
  const guard = createEngine({ store, purgeEveryMs: 1_000 }, ports);
  await expect(guard.purge()).rejects.toMatchObject({ code: "unavailable" });
  expect(noted.armed).toBe(0);
});

test("a purge that its caller waits for keeps the process alive, and ends early if the guard is closed", async () => {
  const pauses: { readonly background: boolean | undefined; isCancelled: boolean }[] = [];
  const timer: Timer = {
    now: () => 0,
    after(_ms, _action, background) {
      const pause = { background, isCancelled: false };
      pauses.push(pause);
      return () => {
        pause.isCancelled = true;
      };
    },
  };
  const store: Store = { ...createScene().inner, purge: async () => ({ removed: 500, more: true }) };
  const ports = { timer, random: () => 0.5, newToken: randomToken };
  const guard = createEngine({ store, purgeEveryMs: 0, storeTimeoutMs: 60_000 }, ports);
  const purged = guard.purge();
  await expect.poll(() => pauses.filter(({ isCancelled }) => !isCancelled)).toHaveLength(1);
  expect(pauses.at(-1)?.background).toBe(false);
  await guard.close();
  expect(await purged).toBe(500);
});
