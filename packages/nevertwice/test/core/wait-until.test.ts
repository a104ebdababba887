/** Tests what the platform's `waitUntil` is handed: the whole call, and what is repeated after it. */
import { expect, test } from "vitest";
import type { WaitUntil } from "../../src/core/wait-until.ts";
import { createScene } from "./scene.ts";

const REQUEST = { operation: "charge", key: "order-1" };

/** Notes which of the promises have settled, in the order in which they were handed over. */
function createNotes() {
  const settled: boolean[] = [];
  const waitUntil: WaitUntil = (work) => {
    const index = settled.push(false) - 1;
    void work.then(() => {
      settled[index] = true;
    });
  };
  return { settled, waitUntil };
}

test("gets the call, which settles when the call has ended, however it ends", async () => {
  const scene = createScene();
  const { settled, waitUntil } = createNotes();
  const run = scene.guard.run({ ...REQUEST, waitUntil }, () => scene.sleep(100));
  await scene.advance(50);
  expect(settled).toEqual([false]);
  await scene.settle(run);
  expect(settled).toEqual([true]);
  const failing = scene.guard.run({ ...REQUEST, key: "order-2", waitUntil }, () =>
    Promise.reject(new Error("no")),
  );
  await expect(scene.settle(failing)).rejects.toThrow("no");
  expect(settled).toEqual([true, true]);
});

test("gets the repeats of a completion that the store did not confirm", async () => {
  const scene = createScene({ completeWaitMs: 20 });
  const { settled, waitUntil } = createNotes();
  for (let tries = 0; tries < 3; tries++) scene.store.plan("complete", "refuse");
  await scene.settle(scene.guard.run({ ...REQUEST, waitUntil }, () => 1));
  expect(settled).toEqual([true, false]);
  await scene.advance(60_000);
  expect(settled).toEqual([true, true]);
  expect(await scene.settle(scene.guard.read(REQUEST))).toMatchObject({ state: "completed" });
});

test("gets the release of a claim whose work never started", async () => {
  const scene = createScene({ storeTimeoutMs: 100 });
  const { settled, waitUntil } = createNotes();
  for (let tries = 0; tries < 2; tries++) scene.store.plan("claim", "hang");
  const result = await scene.settle(scene.guard.tryRun({ ...REQUEST, waitUntil }, () => 1));
  expect(result.status).toBe("unavailable");
  await scene.advance(60_000);
  expect(settled).toEqual([true, true]);
});

test("is the guard's own for calls that bring none", async () => {
  const own = createNotes();
  const brought = createNotes();
  const scene = createScene({ waitUntil: own.waitUntil });
  await scene.settle(scene.guard.run(REQUEST, () => 1));
  await scene.settle(scene.guard.run({ ...REQUEST, waitUntil: brought.waitUntil }, () => 1));
  expect(own.settled).toEqual([true]);
  expect(brought.settled).toEqual([true]);
});

test("does not affect the call by what it throws", async () => {
  const scene = createScene();
  const waitUntil = () => {
    throw new Error("no context");
  };
  expect(await scene.settle(scene.guard.run({ ...REQUEST, waitUntil }, () => 1))).toBe(1);
});

test("must be a function", async () => {
  const scene = createScene();
  const waitUntil = "ctx" as unknown as WaitUntil;
  await expect(scene.guard.run({ ...REQUEST, waitUntil }, () => 1)).rejects.toThrow(/waitUntil/);
  expect(() => scene.another({ waitUntil })).toThrow(/waitUntil/);
});
