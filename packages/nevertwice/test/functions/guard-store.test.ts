/** Tests guards on stores: custom stores, lookup, marks, clearing and closing. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { storeCases } from "../../src/testing/store-cases.ts";
import { createScene, failure, held, REFUSE } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };
const subjectsOf = (...keys: readonly string[]) => keys.map((key) => ({ operation: "import", key }));

test("Baldur: pluggable store port: a custom store passes the published cases, and works", async () => {
  const asked: string[] = [];
  /** A custom store: it notes every claim, and passes it to memory. */
  const ledger = (clock = manualClock()): Store => {
    const inner = memoryStore({ clock });
    return {
      ...inner,
      claim(claim) {
        asked.push(claim.parts.key);
        return inner.claim(claim);
      },
    };
  };
  const cases = storeCases(() => {
    const clock = manualClock();
    return { store: ledger(clock), advance: clock.advance };
  });
  for (const { run } of cases) await run();
  const guard = createGuard({ store: ledger(), purgeEveryMs: 0 });
  for (const _ of [1, 2]) expect(await guard.run(ORDER, async ({ number }) => number)).toBe(1);
  expect([cases.length > 50, asked.at(-1)]).toEqual([true, "order-1"]);
  await guard.close();
});

test("Baldur: in-memory: guards of one process share it, and a full store refuses new keys and forgets none", async () => {
  const store = memoryStore({ maxRecords: 1 });
  const [guard, another] = [1, 2].map(() => createGuard({ store, purgeEveryMs: 0 }));
  await guard?.run(ORDER, async () => "charged");
  expect(await another?.run(ORDER, async () => "twice")).toBe("charged");
  await expect(another?.run({ ...ORDER, key: "order-2" }, () => 1)).rejects.toEqual(failure("store-full"));
  expect(await guard?.run(ORDER, async () => "twice")).toBe("charged");
});

test("Baldur: database lookup fallback: a key that the store forgot and the database knows counts as done, and is marked again", async () => {
  const { guard, clock, store } = createScene({ storeTimeoutMs: 20 });
  const invoices = new Set(["invoice-1"]);
  const lookup = vi.fn(({ key }: { key: unknown }) => invoices.has(String(key)));
  const ask = (key: string) => guard.seen({ operation: "bill", key, lookup });
  expect([await ask("invoice-1"), await ask("invoice-1"), await ask("invoice-2")]).toEqual([
    true,
    true,
    false,
  ]);
  expect(lookup.mock.calls.map(([{ key }]) => key)).toEqual(["invoice-1", "invoice-2"]);
  clock.advance(guard.policy.markRetentionMs);
  expect(await ask("invoice-1")).toBe(true);
  store.setRates({ refuse: 1 });
  const down = { operation: "bill", key: "invoice-1", lookup };
  expect(await guard.seen({ ...down, onUnavailable: "proceed" })).toBe(true);
  await expect(guard.seen(down)).rejects.toEqual(failure("unavailable"));
});

test("Baldur: batch check / mark: many subjects at once, answered in order", async () => {
  const { guard } = createScene();
  expect(await guard.markBatch(subjectsOf("a", "b"))).toEqual([true, true]);
  expect(await guard.seenBatch(subjectsOf("c", "b", "a", "d"))).toEqual([false, true, true, false]);
  expect(await guard.markBatch(subjectsOf("d", "a", "c"))).toEqual([true, false, true]);
  expect(await guard.releaseBatch(subjectsOf("a", "z"))).toEqual([true, false]);
  const claims = await guard.claimBatch(
    subjectsOf("a", "b", "a").map((subject) => ({ ...subject, ...REFUSE })),
  );
  expect(claims.map(({ status }) => status)).toEqual(["claimed", "already-done", "pending"]);
});

test("Baldur: clear key / reset: a mark is released, a record or a whole scope is forgotten", async () => {
  const { guard } = createScene();
  const scoped = { ...ORDER, scope: "alice" };
  await guard.mark(ORDER);
  expect([await guard.release(ORDER), await guard.seen(ORDER)]).toEqual([true, false]);
  await guard.run(scoped, () => Promise.reject(new Error("declined"))).catch(() => {});
  expect([await guard.forget(scoped), await guard.read(scoped)]).toEqual([true, undefined]);
  await guard.run(scoped, async () => "Alice's card");
  expect(await guard.forget({ scope: "alice" })).toEqual({ forgotten: 1, inFlight: 0 });
  expect((await guard.read(scoped))?.outcome).toMatchObject({ kind: "not-kept" });
  expect([await guard.reopen(scoped), await guard.run(scoped, async () => "anew")]).toEqual([true, "anew"]);
});

test("Baldur: close / shutdown drain: new work is refused, and running work is waited for and recorded", async () => {
  const { guard, another } = createScene({ drainMs: 60_000 });
  const { work, isUnderWay, finish } = held<string>();
  const running = guard.run(ORDER, work);
  await isUnderWay;
  const closing = guard.close();
  await expect(guard.run({ ...ORDER, key: "order-2" }, () => 2)).rejects.toEqual(failure("guard-closed"));
  // Longer than a guard that does not drain would wait.
  await sleep(50);
  finish("charged");
  expect([await running, await closing]).toEqual(["charged", []]);
  expect(await another().run(ORDER, async () => "twice")).toBe("charged");
});
