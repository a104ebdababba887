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

test("pauses between two batches for four times as long as a batch took", async () => {
  const scene = createScene();
  const bites: number[] = [];
  const store: Store = {
    ...scene.inner,
    async purge() {
      bites.push(scene.world.now());
      await scene.sleep(10 * bites.length);
      return { removed: 500, more: bites.length < 3 };
    },
  };
  const guard = scene.another({ store, purgeEveryMs: 1_000 });
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(1_500);
  expect(bites).toEqual([1_000, 1_050, 1_150]);
  await scene.settle(guard.close());
});

test("stops after a thousand batches if the store always has more to purge", async () => {
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
  await scene.settle(guard.read(SUBJECT));
  await scene.advance(1_001);
  expect(bites).toBe(1_000);
  expect(scene.events).toEqual([{ kind: "purged", removed: 1_000 }]);
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
