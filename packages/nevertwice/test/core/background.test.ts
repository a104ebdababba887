/** What is said to the store when nobody waits for it any more. */
import { expect, test } from "vitest";
import { createBackground } from "../../src/core/background.ts";
import type { Store } from "../../src/core/store.ts";
import { createCountingTimer } from "./scene.ts";

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
