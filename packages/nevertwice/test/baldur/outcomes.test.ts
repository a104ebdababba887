/** What Baldur remembers of an operation, and how a duplicate is told. */
import { expect, test, vi } from "vitest";
import { tryProtect } from "../../src/functions/protect.ts";
import { crash, createScene, failure, held, REFUSE } from "./scene.ts";

const ORDER = { operation: "charge", key: "order-1" };

test("Baldur: remembers completion: what succeeded is not run again, by whichever process", async () => {
  const { guard, another } = createScene();
  const charge = vi.fn(async () => ({ receipt: 17 }));
  await guard.run(ORDER, charge);
  expect(await another().run(ORDER, charge)).toEqual({ receipt: 17 });
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: duplicate as typed error: one code for what is done, another for what is under way", async () => {
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

test("Baldur: duplicate as returned value: with a status, and with what a resilient call measures", async () => {
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

test("Baldur: error text stored: a failure that is remembered tells why, to duplicates and to whoever looks", async () => {
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

test("Baldur: failed state distinct: of nothing, under way, failed, gone silent and done", async () => {
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

test("Baldur: outcome-unknown answer with candidates: nobody repeats it until one of those listed is decided", async () => {
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

test("Baldur: intent written before the act: while it happens, everybody can see that it does", async () => {
  const { guard, another } = createScene();
  const seen = await guard.run(ORDER, () => another().read(ORDER));
  expect(seen).toMatchObject({ ...ORDER, state: "pending", number: 1 });
  const unwritten = createScene({ storeTimeoutMs: 20 });
  unwritten.store.setRates({ refuse: 1 });
  const act = vi.fn(async () => "done");
  expect(await unwritten.guard.tryRun(ORDER, act)).toMatchObject({ status: "unavailable" });
  expect(act).not.toHaveBeenCalled();
});
