/** What the work's return or throw means, where it is not plain. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

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
