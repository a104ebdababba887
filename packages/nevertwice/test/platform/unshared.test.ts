/** Tests what belongs to one call only, where the platform lets no call share a timer, a read or a promise with another one. */
import { expect, test, vi } from "vitest";
import { createBackground } from "../../src/core/background.ts";
import { systemTimer } from "../../src/core/clock.ts";
import { createEngine } from "../../src/core/engine.ts";
import { createRequirement } from "../../src/core/requirement.ts";
import type { Store } from "../../src/core/store.ts";
import { endOfTurn } from "../../src/http/event-loop-turn.ts";
import { createBudget } from "../../src/http/quota-budget.ts";
import { takeSeat } from "../../src/http/waiting-room.ts";
import { createBatch } from "../../src/stores/batch.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { gate } from "../deferred.ts";

vi.mock("#platform", () => import("../../src/platform/web.ts"));

const CALL = { operation: "charge", key: "order-1" };

test("the memory store wakes no waiter", () => {
  expect(memoryStore().watch).toBeUndefined();
});

test("requests do not wait for a common end of the turn", () => {
  expect(endOfTurn()).toBeUndefined();
});

test("every waiter reads the record itself", async () => {
  const inner = memoryStore();
  const { opened, open } = gate();
  let reads = 0;
  // No read is answered before all waiters have sent theirs.
  const read: Store["read"] = async (...args) => {
    reads++;
    await opened;
    return inner.read(...args);
  };
  const guard = createEngine({ store: { ...inner, read }, waitMs: 30_000, storeTimeoutMs: 30_000 });
  const calls = Array.from({ length: 3 }, () => guard.run(CALL, () => opened));
  await expect.poll(() => reads).toBe(2);
  open();
  await Promise.all(calls);
});

test("a guard sets no timer for purges, and purges when it is asked to", async () => {
  const inner = memoryStore();
  const purge = vi.fn(inner.purge);
  const guard = createEngine({ store: { ...inner, purge }, purgeEveryMs: 1 });
  await guard.run({ ...CALL, retentionMs: 1 }, () => new Promise((resolve) => setTimeout(resolve, 30)));
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(purge).not.toHaveBeenCalled();
  expect(await guard.purge()).toBe(1);
  expect(purge).toHaveBeenCalledOnce();
});

test("calls that arrive during a check of the requirement check the store themselves", async () => {
  let checks = 0;
  const store: Store = {
    ...memoryStore(),
    async settings() {
      checks++;
      const yes = { survives: "yes", because: "" } as const;
      const survives = { "our-crash": yes, "store-crash": yes, "power-loss": yes, failover: yes };
      return { title: "any", survives, notes: [] };
    },
  };
  const requirement = createRequirement(store, "our-crash");
  await Promise.all([requirement.meet(), requirement.meet()]);
  expect(checks).toBe(2);
  await requirement.meet();
  expect(checks).toBe(2);
});

test("requests that find a quota used up take a block each", async () => {
  const inner = memoryStore();
  let claims = 0;
  const claim: Store["claim"] = (request) => {
    claims++;
    return inner.claim(request);
  };
  const of = { name: "keys", limit: 64, scope: undefined } as const;
  const budget = createBudget(createEngine({ store: { ...inner, claim } }), of, Date.now);
  expect(await Promise.all([budget.refill(), budget.refill()])).toEqual([true, true]);
  expect(claims).toBeGreaterThanOrEqual(2);
});

test("a task that the platform ends does not count as unanswered forever", async () => {
  const background = createBackground({ store: memoryStore(), timer: systemTimer }, Math.random);
  for (let tasks = 0; tasks < 10_001; tasks++) void background.persist(60_000, () => new Promise(() => {}));
  expect(background.isFull()).toBe(false);
  await background.idle();
});

test("a store sends each call alone instead of in a group", async () => {
  const sent: string[] = [];
  const send = vi.fn(async (calls: readonly string[]) => calls);
  const batch = createBatch<string, string>({
    maxCalls: 10,
    send,
    async alone(call) {
      sent.push(call);
      return call;
    },
  });
  expect(await Promise.all([batch.run("a"), batch.run("b")])).toEqual(["a", "b"]);
  expect(sent).toEqual(["a", "b"]);
  expect(send).not.toHaveBeenCalled();
});

test("an attempt whose request the platform has ended does not count as running once its lease has ended", async () => {
  const guard = createEngine({ store: memoryStore(), drainMs: 0 });
  // Its work never ends, as if the runtime had stopped in the middle of it.
  void guard.run({ ...CALL, leaseMs: 60, maxRunMs: 60 }, () => new Promise(() => {}));
  await expect.poll(async () => (await guard.read(CALL))?.state).toBe("lapsed");
  expect(await guard.run(CALL, () => "again")).toBe("again");
  expect(await guard.close()).toEqual([]);
});

test("a seat whose request the platform has ended is free again once its wait would have ended", async () => {
  const take = (id: string) => takeSeat({ perKey: 1, total: 2, bytes: 30 }, { id, bytes: 10, waitMs: 60 });
  const abandoned = take("a");
  expect(abandoned).toBeDefined();
  expect(take("a")).toBeUndefined();
  await expect.poll(() => take("a")).toBeDefined();
  // It may have been a request that is late rather than ended: then it does not leave the seat of another one.
  abandoned?.();
  expect(take("a")).toBeUndefined();
});
