/** What is remembered of an operation, and what its duplicates are told. */
import { expect, test, vi } from "vitest";
import { createScene, failure } from "../baldur/scene.ts";

const ORDER = { operation: "create-order", key: "request-1" };
const declined = () => Promise.reject(new RangeError("no such product: pump-9"));

test("Skill: remembers completion: for everybody, with when it was", async () => {
  const { guard, another, clock } = createScene();
  await guard.run(ORDER, async () => "created");
  expect(await another().read(ORDER)).toMatchObject({ state: "completed", completedAt: clock.now() });
  expect(await another().seen(ORDER)).toBe(true);
});

test("Skill: replays the original result: as it was, not as it would be now", async () => {
  const { guard, another } = createScene();
  let orders = 0;
  const create = async () => ({ orderId: ++orders, status: "accepted", at: new Date(0), total: 12n });
  const first = await guard.run(ORDER, create);
  expect(await another().run(ORDER, create)).toEqual(first);
  expect(orders).toBe(1);
});

test("Skill: duplicate as typed error: for those who would rather be told than answered", async () => {
  const { guard } = createScene({ onCompleted: "reject" });
  const create = vi.fn(async () => "created");
  await guard.run(ORDER, create);
  await expect(guard.run(ORDER, create)).rejects.toEqual(failure("already-done"));
  expect(await guard.tryRun(ORDER, create)).toEqual({ status: "already-done" });
  expect(create).toHaveBeenCalledTimes(1);
});

test("Skill: failure cached and replayed: where the policy is to remember it, the operation is not tried again", async () => {
  const { guard, another } = createScene({ onFailure: "remember" });
  const create = vi.fn(declined);
  for (const by of [guard, another(), guard])
    await expect(by.run(ORDER, create)).rejects.toThrow("no such product: pump-9");
  expect(create).toHaveBeenCalledTimes(1);
});

test("Skill: error text stored: duplicates and operators read why it failed", async () => {
  const { guard, another } = createScene({ onFailure: "remember" });
  await guard.run(ORDER, declined).catch(() => {});
  expect((await another().read(ORDER))?.outcome).toMatchObject({
    kind: "thrown",
    error: { name: "RangeError", message: "no such product: pump-9" },
  });
});

test("Skill: failed state distinct: of what is under way, what may be tried again, and what is done", async () => {
  const { guard } = createScene();
  const seen: unknown[] = [];
  const look = async () => {
    const { state, outcome } = (await guard.read(ORDER)) ?? {};
    seen.push(outcome === undefined ? state : `${state} ${outcome.kind}`);
  };
  const failing = async () => {
    await look();
    return declined();
  };
  await guard.run(ORDER, failing).catch(look);
  await guard.run({ ...ORDER, onFailure: "remember" }, failing).catch(look);
  expect(seen).toEqual(["pending", "released", "pending", "completed thrown"]);
});

test("Skill: intent written before the act: a record says that it is being done before anything is", async () => {
  const { guard, another, store } = createScene({ storeTimeoutMs: 20 });
  const seen = await guard.run(ORDER, () => another().read(ORDER));
  expect(seen).toMatchObject({ ...ORDER, state: "pending", number: 1 });
  store.setRates({ refuse: 1 });
  const create = vi.fn(async () => "created");
  await expect(guard.run({ ...ORDER, key: "request-2" }, create)).rejects.toEqual(failure("unavailable"));
  expect(create).not.toHaveBeenCalled();
});
