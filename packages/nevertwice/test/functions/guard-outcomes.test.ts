/** Tests what a guard stores about an operation, and what a duplicate gets. */
import { expect, test, vi } from "vitest";
import { tryProtect } from "../../src/functions/protect.ts";
import { crash, createScene, failure, held, REFUSE } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };

test("Baldur: remembers completion: no guard on the same store runs completed work again", async () => {
  const { guard, another } = createScene();
  const charge = vi.fn(async () => ({ receipt: 17 }));
  await guard.run(ORDER, charge);
  expect(await another().run(ORDER, charge)).toEqual({ receipt: 17 });
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: duplicate as typed error: one code for completed work, another for work in flight", async () => {
  const { guard, another } = createScene(REFUSE);
  const { work, isUnderWay, finish } = held<string>();
  const first = guard.run(ORDER, work);
  await isUnderWay;
  const underWay = { name: "NevertwiceError", code: "pending", retryable: true };
  await expect(another().run(ORDER, work)).rejects.toMatchObject(underWay);
  finish("charged");
  await first;
  const done = { name: "NevertwiceError", code: "already-done", retryable: false };
  await expect(another().run(ORDER, work)).rejects.toMatchObject(done);
});

test("Baldur: duplicate as returned value: with a status, and with the measurements of tryProtect", async () => {
  const { guard } = createScene();
  const charge = vi.fn(async () => "charged");
  await guard.run(ORDER, charge);
  expect(await guard.tryRun(ORDER, charge)).toEqual({ status: "replayed", value: "charged" });
  expect(await guard.tryRun({ ...ORDER, ...REFUSE }, charge)).toEqual({ status: "already-done" });
  const asked = { operation: "charge", key: "id", context: { id: "order-1" }, ...REFUSE } as const;
  const answer = await tryProtect(guard, asked, charge);
  expect(answer).toMatchObject({
    outcome: "refused",
    status: "already-done",
    attempts: 0,
    isFallback: false,
  });
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: failure releases key: the next call runs at once", async () => {
  const { guard } = createScene(REFUSE);
  const charge = vi.fn().mockRejectedValueOnce(new Error("declined")).mockResolvedValue("charged");
  await expect(guard.run(ORDER, charge)).rejects.toThrow("declined");
  expect(await guard.run(ORDER, charge)).toBe("charged");
  await expect(guard.run(ORDER, charge)).rejects.toEqual(failure("already-done"));
});

test("Baldur: error text stored: a remembered failure has its error text, for duplicates and for operators", async () => {
  const { guard, another } = createScene({ onFailure: "remember" });
  const charge = vi.fn().mockRejectedValue(new RangeError("card expired in 2019"));
  await expect(guard.run(ORDER, charge)).rejects.toThrow("card expired in 2019");
  await expect(another().run(ORDER, charge)).rejects.toMatchObject({
    name: "RangeError",
    message: "card expired in 2019",
  });
  expect((await guard.read(ORDER))?.outcome).toMatchObject({
    kind: "thrown",
    error: { message: "card expired in 2019" },
  });
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: failed state distinct: from absent, in flight, lapsed and completed", async () => {
  const scene = createScene();
  const state = async () => (await scene.guard.read(ORDER))?.state ?? "absent";
  const states = [await state()];
  await scene.guard
    .run(ORDER, async () => {
      states.push(await state());
      throw new Error("declined");
    })
    .catch(() => {});
  states.push(await state());
  await crash(scene, ORDER);
  states.push(await state());
  await scene.guard.run(ORDER, async () => "charged");
  expect([...states, await state()]).toEqual(["absent", "pending", "released", "lapsed", "completed"]);
});

test("Baldur: outcome-unknown answer with candidates: the work does not run again until an operator decides", async () => {
  const scene = createScene({ onLapsed: "hold" });
  await crash(scene, { ...ORDER, scope: "alice" });
  const charge = vi.fn(async () => "charged again");
  const asked = await scene.guard.tryRun({ ...ORDER, scope: "alice" }, charge);
  const { records } = await scene.guard.listUnknown();
  expect(records).toMatchObject([{ ...ORDER, scope: "alice", state: "lapsed", held: true }]);
  const fence = records[0]?.fence ?? 0;
  expect(asked).toEqual({ status: "unknown", fence });
  const found = { status: "done", value: "charged, says the provider" } as const;
  expect(await scene.guard.resolve({ ...ORDER, scope: "alice", fence }, found)).toBe(true);
  expect(await scene.guard.run({ ...ORDER, scope: "alice" }, charge)).toBe("charged, says the provider");
  expect(charge).not.toHaveBeenCalled();
});

test("Baldur: intent written before the act: other guards see the record while the work runs", async () => {
  const { guard, another } = createScene();
  const seen = await guard.run(ORDER, () => another().read(ORDER));
  expect(seen).toMatchObject({ ...ORDER, state: "pending", number: 1 });
  const unwritten = createScene({ storeTimeoutMs: 20 });
  unwritten.store.setRates({ refuse: 1 });
  const act = vi.fn(async () => "done");
  expect(await unwritten.guard.tryRun(ORDER, act)).toMatchObject({ status: "unavailable" });
  expect(act).not.toHaveBeenCalled();
});

const REQUEST = { operation: "create-order", key: "request-1" };
const declined = () => Promise.reject(new RangeError("no such product: pump-9"));

test("Skill: remembers completion: for every guard, with the time of completion", async () => {
  const { guard, another, clock } = createScene();
  await guard.run(REQUEST, async () => "created");
  expect(await another().read(REQUEST)).toMatchObject({ state: "completed", completedAt: clock.now() });
  expect(await another().seen(REQUEST)).toBe(true);
});

test("Skill: replays the original result: the stored result, not a new one", async () => {
  const { guard, another } = createScene();
  let orders = 0;
  const create = async () => ({ orderId: ++orders, status: "accepted", at: new Date(0), total: 12n });
  const first = await guard.run(REQUEST, create);
  expect(await another().run(REQUEST, create)).toEqual(first);
  expect(orders).toBe(1);
});

test("Skill: duplicate as typed error: for callers that prefer an error to a replay", async () => {
  const { guard } = createScene({ onCompleted: "reject" });
  const create = vi.fn(async () => "created");
  await guard.run(REQUEST, create);
  await expect(guard.run(REQUEST, create)).rejects.toEqual(failure("already-done"));
  expect(await guard.tryRun(REQUEST, create)).toEqual({ status: "already-done" });
  expect(create).toHaveBeenCalledTimes(1);
});

test("Skill: failure cached and replayed: with onFailure remember, the operation is not tried again", async () => {
  const { guard, another } = createScene({ onFailure: "remember" });
  const create = vi.fn(declined);
  for (const by of [guard, another(), guard])
    await expect(by.run(REQUEST, create)).rejects.toThrow("no such product: pump-9");
  expect(create).toHaveBeenCalledTimes(1);
});

test("Skill: error text stored: duplicates and operators read why it failed", async () => {
  const { guard, another } = createScene({ onFailure: "remember" });
  await guard.run(REQUEST, declined).catch(() => {});
  expect((await another().read(REQUEST))?.outcome).toMatchObject({
    kind: "thrown",
    error: { name: "RangeError", message: "no such product: pump-9" },
  });
});

test("Skill: failed state distinct: from work in flight, work that may be retried, and completed work", async () => {
  const { guard } = createScene();
  const seen: unknown[] = [];
  const look = async () => {
    const { state, outcome } = (await guard.read(REQUEST)) ?? {};
    seen.push(outcome === undefined ? state : `${state} ${outcome.kind}`);
  };
  const failing = async () => {
    await look();
    return declined();
  };
  await guard.run(REQUEST, failing).catch(look);
  await guard.run({ ...REQUEST, onFailure: "remember" }, failing).catch(look);
  expect(seen).toEqual(["pending", "released", "pending", "completed thrown"]);
});

test("Skill: intent written before the act: a pending record exists before the work starts", async () => {
  const { guard, another, store } = createScene({ storeTimeoutMs: 20 });
  const seen = await guard.run(REQUEST, () => another().read(REQUEST));
  expect(seen).toMatchObject({ ...REQUEST, state: "pending", number: 1 });
  store.setRates({ refuse: 1 });
  const create = vi.fn(async () => "created");
  await expect(guard.run({ ...REQUEST, key: "request-2" }, create)).rejects.toEqual(failure("unavailable"));
  expect(create).not.toHaveBeenCalled();
});
