/** Tests the background calls that the guard makes to the store after its caller has been answered. */
import { expect, test } from "vitest";
import { createBackground } from "../../src/core/background.ts";
import type { Store } from "../../src/core/store.ts";
import { createCountingTimer } from "./scene.ts";

test("makes a background call at once, and retries it after pauses that double up to a limit", async () => {
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

test("is idle when all background calls are done, including those added in the meantime", async () => {
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

test("stop ends the pauses, makes no further calls, and reports that the end is unknown", async () => {
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
  // The call in flight times out as usual, and no pause follows it.
  await advanceTo(1_001);
  expect(noted.armed).toBe(0);
  expect(await hanging).toBeUndefined();
  expect(await background.persist(1_000, () => Promise.resolve(tries++))).toBeUndefined();
  expect(tries).toBe(3);
  expect(noted.armed).toBe(0);
});
