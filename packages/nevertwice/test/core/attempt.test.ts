/** Tests how the guard interprets what the work returns or throws in the less obvious cases. */
import { expect, test } from "vitest";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("notDone without a cause throws an error that says so to the caller", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  const run = guard.run(request, (attempt) => {
    throw attempt.notDone();
  });
  expect(await run.catch((thrown: unknown) => thrown)).toEqual(new Error("nothing was done"));
  expect((await guard.read(request))?.state).toBe("released");
});

test("an error from an earlier attempt's notDone does not release a later attempt", async () => {
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

test("an onFailure that returns no disposition means that the outcome is unknown", async () => {
  const { guard } = createScene({ onFailure: (() => "maybe") as unknown as () => "release" });
  await expect(guard.run(request, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect((await guard.read(request))?.state).toBe("lapsed");
});

test("a thrown value that is not an error is released, remembered and replayed unchanged", async () => {
  const { guard } = createScene();
  for (const thrown of [null, undefined, "text", 5])
    await expect(guard.run(request, () => Promise.reject(thrown))).rejects.toBe(thrown);
  const remembering = { ...request, onFailure: "remember" } as const;
  for (let i = 0; i < 2; i++)
    await expect(guard.run(remembering, () => Promise.reject("text"))).rejects.toBe("text");
});

/** An attempt that will fail, and whose lease has ended without its notice. */
async function failingUnnoticed() {
  const scene = createScene({ onFailure: "remember", leaseMs: 1_000 });
  const failing = () => scene.sleep(100).then(() => Promise.reject(new Error("first")));
  const first = scene.guard.tryRun(request, failing);
  first.catch(() => {});
  await scene.advance(10);
  scene.jump(5_000);
  return { ...scene, first };
}

test("returns the stored outcome to an attempt that was overtaken without noticing and whose error is to be remembered", async () => {
  const { first, another, settle } = await failingUnnoticed();
  await another().run(request, () => "second");
  expect(await settle(first)).toEqual({ status: "replayed", value: "second" });
});

test("throws the error of an attempt that was overtaken without noticing, while the other attempt runs, even if it is to be remembered", async () => {
  const { first, another, settle, sleep } = await failingUnnoticed();
  const second = another().run(request, () => sleep(500).then(() => "second"));
  await expect(settle(first)).rejects.toThrow("first");
  expect(await settle(second)).toBe("second");
});

test("throws an error that is to be remembered but cannot be stored unchanged, frozen or not", async () => {
  const { guard } = createScene({ onFailure: "remember", maxOutcomeBytes: 100 });
  const error = Object.freeze(new Error("x".repeat(200)));
  await expect(guard.run(request, () => Promise.reject(error))).rejects.toBe(error);
  expect(await guard.tryRun(request, () => 1)).toEqual({ status: "not-kept", reason: "too-large" });
});

test("the stack of the first caller's copy is a property like that of every error", async () => {
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
