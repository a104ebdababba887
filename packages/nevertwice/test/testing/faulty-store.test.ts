/** Each fault does what its name says, and a seed draws the same faults again. */
import { expect, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStoreOptions, faultyStore } from "../../src/testing/faulty-store.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";

const request: ClaimRequest = {
  id: "id",
  parts: { namespace: "n", scope: "s", operation: "o", key: "k" },
  token: "t",
  leaseMs: 60_000,
  retentionMs: 60_000,
  hold: false,
};

function create(options: FaultyStoreOptions = {}) {
  const world = createWorld();
  const inner = memoryStore();
  const store = faultyStore(inner, { timer: world, ...options });
  const state = async () => (await inner.read("id"))?.state ?? "absent";
  /** Lets all that can happen happen, and says how the call stands. */
  async function outcomeOf(call: Promise<unknown>): Promise<string> {
    let how = "unanswered";
    call.then(
      () => {
        how = "answered";
      },
      () => {
        how = "failed";
      },
    );
    await world.run(() => false);
    return how;
  }
  return { world, store, state, outcomeOf };
}

test.each([
  ["refuse", "failed", "absent"],
  ["hang", "unanswered", "absent"],
  ["lose-reply", "unanswered", "pending"],
  ["break-reply", "failed", "pending"],
  ["delay", "answered", "pending"],
  ["delay-reply", "answered", "pending"],
] as const)("%s: the caller is %s and the record is %s", async (fault, how, state) => {
  const scene = create();
  scene.store.plan("claim", fault);
  expect(await scene.outcomeOf(scene.store.claim(request))).toBe(how);
  expect(await scene.state()).toBe(state);
  expect(scene.store.calls.claim).toBe(1);
});

test("delay holds the call back, delay-reply only its answer", async () => {
  for (const [fault, before] of [
    ["delay", "absent"],
    ["delay-reply", "pending"],
  ] as const) {
    const scene = create({ delayMs: 40 });
    scene.store.plan("claim", fault);
    const call = scene.store.claim(request);
    expect(await scene.state()).toBe(before);
    expect(await scene.outcomeOf(call)).toBe("answered");
    expect(scene.world.now()).toBeGreaterThan(0);
    expect(scene.world.now()).toBeLessThanOrEqual(40);
  }
});

test("planned faults are met in order, by their method alone; then calls pass", async () => {
  const { store, outcomeOf } = create();
  store.plan("claim", "refuse");
  store.plan("claim", "hang");
  expect(await outcomeOf(store.read("id"))).toBe("answered");
  expect(await outcomeOf(store.claim(request))).toBe("failed");
  expect(await outcomeOf(store.claim(request))).toBe("unanswered");
  expect(await outcomeOf(store.claim(request))).toBe("answered");
});

test("a seed draws the same faults again, near its rates, and another seed others", async () => {
  async function draw(seed: number): Promise<string> {
    const { store, outcomeOf } = create({ seed, rates: { refuse: 0.3, hang: 0.2 } });
    let drawn = "";
    for (let i = 0; i < 200; i++) drawn += (await outcomeOf(store.read("id")))[0];
    return drawn;
  }
  const first = await draw(7);
  expect(await draw(7)).toBe(first);
  expect(await draw(8)).not.toBe(first);
  const failed = first.split("f").length - 1;
  const unanswered = first.split("u").length - 1;
  expect(failed).toBeGreaterThan(35);
  expect(failed).toBeLessThan(85);
  expect(unanswered).toBeGreaterThan(20);
  expect(unanswered).toBeLessThan(65);
});

test("rates can be changed while it runs: an outage, and its end", async () => {
  const { store, outcomeOf } = create();
  store.setRates({ refuse: 1 });
  expect(await outcomeOf(store.claim(request))).toBe("failed");
  store.setRates({});
  expect(await outcomeOf(store.claim(request))).toBe("answered");
});

test("a store without optional methods gets none", () => {
  const { watch: _, list: __, forget: ___, ...plain } = memoryStore();
  const store = faultyStore({ ...plain, maxOutcomeBytes: 5 });
  expect(store.watch).toBeUndefined();
  expect(store.list).toBeUndefined();
  expect(store.forget).toBeUndefined();
  expect(store.maxOutcomeBytes).toBe(5);
});
