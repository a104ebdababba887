/** Tests a guard's defaults, its refusals, and that it releases what it used. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import { createEmit } from "../../src/core/observer.ts";
import type { Store } from "../../src/core/store.ts";
import { randomToken } from "../../src/core/token.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("run throws lease-lost with a message that says what happened", async () => {
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

test("removes its listener from the caller's signal when the call is over, so a long-lived signal collects none", async () => {
  const { guard, settle } = createScene();
  const caller = new AbortController();
  const call = { ...request, signal: caller.signal };
  expect(await settle(guard.run(call, () => "value"))).toBe("value");
  await settle(guard.run({ ...call, key: "fails" }, () => Promise.reject(new Error("no")))).catch(() => {});
  expect(getEventListeners(caller.signal, "abort")).toEqual([]);
});

test('purges every minute, drains for half a minute, and uses the namespace "default" unless set otherwise', async () => {
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

test("refuses a store that lacks a single method, and names the method", () => {
  const { inner } = createScene();
  for (const method of ["claim", "complete", "abandon", "renew", "read", "purge", "close"] as const)
    expect(() => createEngine({ store: { ...inner, [method]: undefined } as unknown as Store })).toThrow(
      `store is not a store: it lacks ${method}.`,
    );
});

test("creates no event when there is no observer", () => {
  expect(createEmit([])).toBeUndefined();
});
