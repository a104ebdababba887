/**
 * Tests that the caller waits no longer than storeTimeoutMs, however often a call is repeated, and that close ends
 * every repetition.
 */
import { expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, type StoreFault } from "../../src/testing/faulty-store.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";

const TIMEOUT_MS = 5_000;
const DRAIN_MS = 30_000;
const HELD = { id: "0".repeat(64), token: "a token that nobody guesses" };

async function scene() {
  const world = createWorld();
  const store = faultyStore(memoryStore(), { timer: world, delayMs: TIMEOUT_MS * 0.6 });
  const ports = { timer: world, random: () => 0.5, newToken: () => "a token of this process" };
  const claims = createClaims(
    { store, storeTimeoutMs: TIMEOUT_MS, purgeEveryMs: 0, drainMs: DRAIN_MS },
    ports,
  );
  /** Returns how the call ended, and at what time. */
  async function timed(call: Promise<unknown>): Promise<readonly [string, number]> {
    let as = "";
    const ended = (how: unknown) => {
      as = String(how);
    };
    call.then(ended, ({ code }) => ended(code));
    await world.run(() => as !== "");
    return [as, world.now()];
  }
  return { world, store, claims, timed };
}

test.each(["complete", "abandon", "renew", "read"] as const)(
  "a %s that is never answered throws within storeTimeoutMs",
  async (method) => {
    const { store, claims, timed } = await scene();
    store.setRates({ hang: 1 });
    const calls = {
      complete: () => claims.complete({ ...HELD, value: 1 }),
      abandon: () => claims.abandon({ ...HELD, as: "released" }),
      renew: () => claims.renew(HELD),
      read: () => claims.read(HELD.id),
    };
    const [as, tookMs] = await timed(calls[method]());
    expect(as).toBe("unavailable");
    expect(tookMs).toBeLessThanOrEqual(TIMEOUT_MS);
    expect(store.calls[method]).toBe(2);
  },
);

test.each(["lose-reply", "break-reply", "refuse", "hang"] as const satisfies readonly StoreFault[])(
  "one call that fails with %s is retried within the same timeout",
  async (fault) => {
    const { store, claims, timed } = await scene();
    store.plan("renew", fault);
    const [as, tookMs] = await timed(claims.renew(HELD));
    expect(as).toBe("false");
    expect(tookMs).toBeLessThan(TIMEOUT_MS);
  },
);

test("an answer that arrives after its try timed out still counts", async () => {
  const { store, claims, timed } = await scene();
  store.setRates({ "delay-reply": 1 });
  expect((await timed(claims.renew(HELD)))[0]).toBe("false");
});

test("close waits for claims that are being given back until drainMs has passed, then makes no further calls to the store", async () => {
  const { world, store, claims, timed } = await scene();
  store.setRates({ refuse: 1 });
  expect((await timed(claims.claim({ operation: "charge", key: "k" })))[0]).toBe("unavailable");
  const before = world.now();
  const [as, at] = await timed(claims.close());
  expect([as, at - before]).toEqual(["undefined", DRAIN_MS]);
  const { abandon } = store.calls;
  expect(abandon).toBeGreaterThan(5);
  await expect(claims.claim({ operation: "charge", key: "k" })).rejects.toMatchObject({
    code: "guard-closed",
  });
  expect(await world.run(() => false)).toBe(0);
  expect(store.calls.abandon).toBe(abandon);
});
