/** The guard as it is given out: defaults, refusals, and what it leaves behind. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import { createEmit } from "../../src/core/observer.ts";
import type { Store } from "../../src/core/store.ts";
import { randomToken } from "../../src/core/token.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("run throws for lease-lost, and says what happened", async () => {
  const { guard, another, store, sleep, settle } = createScene({ leaseMs: 100 });
  for (let i = 0; i < 20; i++) store.plan("renew", "hang");
  const late = guard.run(request, () => sleep(300));
  late.catch(() => {});
  await settle(sleep(150));
  const second = another().run(request, () => sleep(500));
  await expect(settle(late)).rejects.toMatchObject({
    code: "lease-lost",
    message: expect.stringContaining("another attempt held the key"),
  });
  await settle(second);
});

test("a caller's signal is let go when the call is over, so that a long-lived one gathers nothing", async () => {
  const { guard, settle } = createScene();
  const caller = new AbortController();
  const call = { ...request, signal: caller.signal };
  expect(await settle(guard.run(call, () => "value"))).toBe("value");
  await settle(guard.run({ ...call, key: "fails" }, () => Promise.reject(new Error("no")))).catch(() => {});
  expect(getEventListeners(caller.signal, "abort")).toEqual([]);
});

test("a guard's own defaults: it purges every minute, drains for half a minute, and its namespace is default", async () => {
  const { world, inner, advance, settle } = createScene();
  const purgedAt: number[] = [];
  const namespaces: string[] = [];
  const guard = createEngine(
    {
      store: {
        ...inner,
        claim(claim) {
          namespaces.push(claim.parts.namespace);
          return inner.claim(claim);
        },
        purge() {
          purgedAt.push(world.now());
          return Promise.resolve({ removed: 0, more: false });
        },
      },
    },
    { timer: world, random: () => 0.5, newToken: randomToken },
  );
  guard.run(request, () => new Promise(() => {})).catch(() => {});
  await advance(130_000);
  expect(await settle(guard.close())).toHaveLength(1);
  expect(world.now()).toBe(160_000);
  expect(purgedAt).toEqual([60_000, 120_000]);
  expect(namespaces).toEqual(["default"]);
});

test("a store that lacks a single method is no store, and is told which", () => {
  const { inner } = createScene();
  for (const method of ["claim", "complete", "abandon", "renew", "read", "purge", "close"] as const)
    expect(() => createEngine({ store: { ...inner, [method]: undefined } as unknown as Store })).toThrow(
      `store is no store: it lacks ${method}.`,
    );
});

test("where nobody watches no event is made", () => {
  expect(createEmit([])).toBeUndefined();
});
