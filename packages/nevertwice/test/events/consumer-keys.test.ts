/** Tests the keys of consumers and guards: where they come from, and what happens without one. */
import { expect, test, vi } from "vitest";
import { consumer } from "../../src/events/index.ts";
import { crash, createScene, failure } from "../functions/guard-scene.ts";

interface CreateOrder {
  readonly idempotencyKey: string;
  readonly product: string;
}

test("Skill: caller-supplied key: a request that comes again with its key is one request", async () => {
  const { guard, another } = createScene();
  const create = vi.fn(async () => ({ orderId: "order-1" }));
  for (const [by, key] of [
    [guard, "request-1"],
    [another(), "request-1"],
    [guard, "request-2"],
  ] as const)
    await by.run({ operation: "create-order", key }, create);
  expect(create).toHaveBeenCalledTimes(2);
});

test("Skill: key from function: the wrapper of a handler and the consumer of an event each ask theirs", async () => {
  const { guard } = createScene();
  const create = vi.fn(async ({ product }: CreateOrder) => product);
  const handle = guard.wrap(create, { operation: "create-order", key: (request) => request.idempotencyKey });
  await handle({ idempotencyKey: "1", product: "pump" });
  expect(await handle({ idempotencyKey: "1", product: "pump" })).toBe("pump");
  const events = consumer(guard, {
    name: "orders",
    key: (event: { eventId: string }) => event.eventId,
    work: () => create({ idempotencyKey: "", product: "valve" }),
  });
  const answers = [await events.handle({ eventId: "e-1" }), await events.handle({ eventId: "e-1" })];
  expect(answers.map(({ status }) => status)).toEqual(["done", "done-before"]);
  expect(create).toHaveBeenCalledTimes(2);
});

test("Skill: key required → error: neither a request nor an event without one is worked on", async () => {
  const { guard, store } = createScene();
  const create = vi.fn(async (_: Partial<CreateOrder>) => "created");
  const key = ({ idempotencyKey }: Partial<CreateOrder>) => idempotencyKey as string;
  const handle = guard.wrap(create, { operation: "create-order", key });
  for (const request of [{}, { idempotencyKey: "" }])
    await expect(handle(request)).rejects.toEqual(failure("key-missing"));
  const events = consumer(guard, { name: "orders", key, work: create });
  const refused = { status: "refused", verdict: "reject", error: failure("key-missing") };
  expect(await events.handle({})).toMatchObject(refused);
  expect([create.mock.calls.length, store.calls.claim]).toEqual([0, 0]);
});

test("Skill: opaque byte-exact comparison: what looks alike is not the same key", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "done");
  const keys = ["Key", "key", " key", "key ", "key\u200b", "Müller", "Mu\u0308ller", "1", "01", "1.0"];
  for (const key of [...keys, ...keys]) await guard.run({ operation: "create-order", key }, work);
  expect(work).toHaveBeenCalledTimes(keys.length);
});

test("Skill: provider's own key derived deterministically: it is the same on every attempt, and no other request's", async () => {
  const scene = createScene();
  const sent: string[] = [];
  const pay = (attempt: { deriveKey(name: string): string }) => sent.push(attempt.deriveKey("psp"));
  const order = { operation: "pay", key: "correlation-1", scope: "order-1" };
  await crash(scene, order, pay);
  await scene.another().run(order, pay);
  await scene.guard.run({ ...order, scope: "order-2" }, pay);
  expect([sent[0] === sent[1], new Set(sent).size]).toEqual([true, 2]);
});
