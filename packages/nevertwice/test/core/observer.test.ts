/** Tests what a guard reports to its observer, and what it never reports. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = {
  operation: "charge",
  scope: "secret-customer",
  key: "secret-key-4711",
  fingerprint: { card: "secret-card" },
};

test("events carry short hashes, never keys, scopes, tokens or values", async () => {
  const scene = createScene({ onFailure: "remember" });
  await scene.guard.run(request, () => "secret-value");
  await scene.guard.run(request, () => "secret-value");
  await scene.guard.tryRun({ ...request, fingerprint: 2 }, () => 1);
  expect(scene.kinds()).toEqual(["claimed", "completed", "replayed", "conflict"]);
  const text = JSON.stringify(scene.events);
  expect(text).not.toMatch(/secret|token/);
  for (const event of scene.events)
    expect(event).toMatchObject({ operation: "charge", keyHash: expect.stringMatching(/^[0-9a-f]{16}$/) });
});

test("an observer that throws or rejects breaks nothing", async () => {
  const thrower = createScene();
  const guard = thrower.another({
    observer: () => {
      throw new Error("broken observer");
    },
  });
  expect(await guard.run(request, () => 1)).toBe(1);
  const rejecter = thrower.another({ observer: () => Promise.reject(new Error("broken observer")) });
  expect(await rejecter.run(request, () => 2)).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
});

test("distinguishes waiting from refusing", async () => {
  const scene = createScene({ leaseMs: 100 });
  const owner = scene.another().run(request, () => scene.sleep(50).then(() => 1));
  await scene.advance(1);
  await scene.settle(scene.guard.run(request, () => 2));
  await owner;
  expect(scene.events).toContainEqual(expect.objectContaining({ kind: "waited", waitedMs: 49 }));
  await scene.guard.tryRun({ ...request, onCompleted: "reject" }, () => 1);
  expect(scene.events.at(-1)).toMatchObject({ kind: "replayed", refused: true });
});

test("reports that a call waited only once, however often it had to claim again", async () => {
  const scene = createScene({ leaseMs: 20, storeTimeoutMs: 1_000 });
  const owner = scene
    .another()
    .run(request, () => scene.sleep(50).then(() => Promise.reject(new Error("no"))));
  owner.catch(() => {});
  await scene.advance(1);
  // The waiter's next claim is granted, but the grant arrives when its lease is over.
  const waiter = scene.guard.run(request, () => "mine");
  await scene.advance(10);
  scene.store.plan("claim", "delay-reply");
  expect(await scene.settle(waiter)).toBe("mine");
  expect(scene.kinds().filter((kind) => kind === "waited")).toEqual(["waited"]);
});

test("claimed and completed report the fence, the number and how long the work ran", async () => {
  const scene = createScene();
  await scene.settle(scene.guard.run(request, () => scene.sleep(70)));
  expect(scene.events).toEqual([
    {
      kind: "claimed",
      operation: "charge",
      keyHash: expect.any(String),
      fence: 1_700_000_000_000_000,
      number: 1,
    },
    {
      kind: "completed",
      operation: "charge",
      keyHash: expect.any(String),
      fence: 1_700_000_000_000_000,
      ranMs: 70,
    },
  ]);
});

test("guard.about describes a subject as its events do", async () => {
  const { guard, events } = createScene();
  const subject = { operation: "charge", scope: "anna", key: "order-1" };
  await guard.run(subject, () => 1);
  expect(events[0]).toMatchObject(guard.about(subject));
  expect(guard.about({ ...subject, scope: "bert" }).keyHash).not.toBe(guard.about(subject).keyHash);
});
