/** Tests the claims of consumers and guards: who may process, who waits, and who is refused. */
import { expect, test, vi } from "vitest";
import { consumer } from "../../src/events/index.ts";
import { createScene, failure, held, tally } from "../functions/guard-scene.ts";

const ORDER = { operation: "create-order", key: "request-1" };

test("Skill: atomic first claim, one winner: of forty calls at the same instant on four guards", async () => {
  const { another } = createScene({ onPending: "reject" });
  const { work, finish } = held<string>();
  const create = vi.fn(work);
  const guards = Array.from({ length: 4 }, () => another());
  const calls = guards.flatMap((guard) => Array.from({ length: 10 }, () => guard.tryRun(ORDER, create)));
  await vi.waitFor(() => expect(create).toHaveBeenCalled());
  finish("created");
  expect(tally(await Promise.all(calls))).toEqual({ ran: 1, pending: 39 });
});

test("Skill: in-flight duplicate: reject: operation in progress, as an error of its own and as a verdict", async () => {
  const { guard, another } = createScene({ onPending: "reject" });
  const { work, isUnderWay, finish } = held<string>();
  const options = { name: "orders", key: (id: string) => id, work };
  const first = guard.run(ORDER, work);
  const event = consumer(guard, options).handle("event-1");
  await isUnderWay;
  await expect(another().run(ORDER, work)).rejects.toEqual(failure("pending"));
  const told = { status: "pending", verdict: "later", afterMs: expect.any(Number) };
  expect(await consumer(another(), options).handle("event-1")).toEqual(told);
  finish("created");
  expect([await first, (await event).status]).toEqual(["created", "done"]);
});

test("Skill: in-flight duplicate: wait then replay: who waits gets what the first one made", async () => {
  const { guard, another } = createScene();
  const { work, isUnderWay, finish } = held<{ orderId: number }>();
  const create = vi.fn(work);
  const first = guard.run(ORDER, create);
  await isUnderWay;
  const second = another().run({ ...ORDER, waitMs: 60_000 }, create);
  finish({ orderId: 7 });
  expect([await first, await second]).toEqual([{ orderId: 7 }, { orderId: 7 }]);
  expect(create).toHaveBeenCalledTimes(1);
});

test("Skill: duplicate: silent skip, reported as success: an event that is known is acknowledged without work", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "processed");
  const events = consumer(guard, { name: "assets", key: (id: string) => id, work });
  await events.handle("event-1");
  expect(await events.handle("event-1")).toEqual({
    status: "done-before",
    verdict: "acknowledge",
    value: "processed",
  });
  expect(work).toHaveBeenCalledTimes(1);
});

test("Skill: non-destructive peek: reading a record changes nothing about it", async () => {
  const { guard, clock } = createScene();
  expect(await guard.read(ORDER)).toBeUndefined();
  await guard.run(ORDER, async () => "created");
  const before = await guard.read(ORDER);
  clock.advance(5_000);
  expect(await guard.read(ORDER)).toEqual(before);
  expect(before).toMatchObject({ state: "completed", number: 1, outcome: { value: "created" } });
});
