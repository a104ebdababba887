/** Tests the claims of nodes: who may work on a message, and who not. */
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { definePipeline } from "../../src/pipeline/index.ts";
import type { ShellContext } from "../../src/pipeline/model.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { held } from "../functions/guard-scene.ts";
import {
  chargeOf,
  crashWhile,
  createManifestScene,
  type ManifestScene,
  type Order,
  shopOf,
} from "./manifest-scene.ts";

const ORDER = { id: "o-1" };

/** Five processes are given the same message at once. */
async function pushByFive(scene: ManifestScene): Promise<string[]> {
  const processes = Array.from({ length: 5 }, () => scene.again());
  const outcomes = await scene.settle(Promise.all(processes.map((each) => each.push("orders", ORDER))));
  return outcomes.map(({ verdict, isDuplicate }) => (isDuplicate ? "duplicate" : verdict)).sort();
}

test("Bloccs: atomic first claim, one winner: of five first deliveries at once one runs, and the others come back", async () => {
  const charge = vi.fn(() => scene.sleep(10).then(() => undefined));
  const scene = createManifestScene(shopOf(charge));
  expect(await pushByFive(scene)).toEqual(["acknowledge", "later", "later", "later", "later"]);
  expect(charge).toHaveBeenCalledTimes(1);
  expect(await pushByFive(scene)).toEqual(new Array(5).fill("duplicate"));
});

test("Bloccs: in-flight duplicate: reject: it is not dropped, but comes back later; the first may still fail", async () => {
  const { work: shell, finish } = held<undefined>();
  const scene = createManifestScene(shopOf(shell));
  const first = scene.pipeline.push("orders", ORDER);
  await scene.advance(1);
  const second = await scene.settle(scene.again().push("orders", ORDER));
  expect(second).toMatchObject({ verdict: "later", failures: [{ phase: "claim", reason: "pending" }] });
  finish(undefined);
  expect(await scene.settle(first)).toMatchObject({ verdict: "acknowledge", isDuplicate: false });
  expect(await scene.push(ORDER)).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
});

test("Bloccs: duplicate: silent skip, reported as success: it is acknowledged, nothing runs, and nothing is emitted", async () => {
  const charge = vi.fn((order: Order, { emit }: ShellContext) => emit("charged", order));
  const out: unknown[] = [];
  const manifest = {
    ...shopOf(charge, {}, { kind: "transform", ports: { in: { in: {} }, out: { charged: {} } } }),
    expose: { in: { orders: "charge.in" }, out: { charged: "charge.charged" } },
  };
  const { push, told } = createManifestScene(manifest, { on: { charged: (order) => out.push(order) } });
  await push(ORDER);
  expect(await push(ORDER)).toMatchObject({ verdict: "acknowledge", failures: [], isDuplicate: true });
  expect([charge.mock.calls.length, out]).toEqual([1, [ORDER]]);
  expect(told("completed", "duplicate")).toEqual(["charge completed", "charge duplicate"]);
});

test("Bloccs: single-winner takeover of failed claim: of five deliveries after a failure one runs", async () => {
  const charge = vi.fn(() => scene.sleep(10).then(() => undefined));
  const scene = createManifestScene(shopOf(charge));
  charge.mockRejectedValueOnce(new Error("no answer"));
  expect((await scene.push(ORDER)).verdict).toBe("later");
  expect(await pushByFive(scene)).toEqual(["acknowledge", "later", "later", "later", "later"]);
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: single-winner takeover of stale claim: of five deliveries after a crash one takes over", async () => {
  const charge = vi.fn(() => scene.sleep(10).then(() => undefined));
  const scene = createManifestScene(shopOf(charge));
  await crashWhile(scene, ORDER);
  expect(await pushByFive(scene)).toEqual(["acknowledge", "later", "later", "later", "later"]);
  expect(charge).toHaveBeenCalledTimes(1);
  expect(scene.guardEvents.filter(({ kind }) => kind === "taken-over")).toHaveLength(1);
});

test("Bloccs: attempt / retry counter: tries count within a delivery, fences over all of them", async () => {
  const tries: { readonly attempt: number; readonly fence: number }[] = [];
  const scene = createManifestScene(
    shopOf(
      (_, { attempt, fence = 0 }) => {
        tries.push({ attempt, fence });
        throw new Error("no answer");
      },
      { retry: { max: 2 } },
    ),
  );
  for (const number of [1, 2]) {
    expect((await scene.push(ORDER)).failures).toMatchObject([{ attempt: 2 }]);
    expect(await scene.guard.read(chargeOf("o-1"))).toMatchObject({ number });
  }
  expect(tries.map(({ attempt }) => attempt)).toEqual([0, 1, 2, 0, 1, 2]);
  const [first, , last, next] = tries.map(({ fence }) => fence);
  expect(last).toBe(first);
  expect(next).toBeGreaterThan(last ?? 0);
});

test("Bloccs: retries inside one run keep ownership: no other delivery gets the key between two tries", async () => {
  const charge = vi.fn((_: Order, { attempt }: ShellContext) => {
    if (attempt === 0) throw new Error("no answer");
    return undefined;
  });
  const scene = createManifestScene(shopOf(charge, { retry: { max: 1, base: "1m", cap: "1m", jitter: 0 } }));
  const first = scene.pipeline.push("orders", ORDER);
  // Longer than a lease: it is renewed while the retry waits.
  await scene.advance(50_000);
  expect(await scene.settle(scene.again().push("orders", ORDER))).toMatchObject({
    failures: [{ reason: "pending" }],
  });
  expect((await scene.settle(first)).verdict).toBe("acknowledge");
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: explicit release / re-arm: what is reopened runs again, once", async () => {
  const charge = vi.fn(() => undefined);
  const { push, guard } = createManifestScene(shopOf(charge));
  await push(ORDER);
  expect(await guard.reopen(chargeOf("o-1"))).toBe(true);
  for (const isDuplicate of [false, true]) expect(await push(ORDER)).toMatchObject({ isDuplicate });
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: non-destructive peek: looking claims nothing and changes nothing", async () => {
  const charge = vi.fn(() => undefined);
  const guard = createGuard({ store: memoryStore() });
  const pipeline = await definePipeline(shopOf(charge)).start(guard);
  for (const _ of [1, 2]) expect(await guard.seen(chargeOf("o-1"))).toBe(false);
  expect(await guard.read(chargeOf("o-1"))).toBeUndefined();
  expect(await pipeline.push("orders", ORDER)).toMatchObject({ isDuplicate: false });
  for (const _ of [1, 2]) expect(await guard.seen(chargeOf("o-1"))).toBe(true);
  expect(charge).toHaveBeenCalledTimes(1);
  await pipeline.close();
  await guard.close();
});

test("Bloccs: remembers completion: over restarts and in every pipeline on that store, with what the node emitted", async () => {
  const charge = vi.fn(() => undefined);
  const scene = createManifestScene(shopOf(charge));
  await scene.push(ORDER);
  await scene.settle(scene.pipeline.close());
  expect(await scene.settle(scene.again().push("orders", ORDER))).toMatchObject({ isDuplicate: true });
  expect(charge).toHaveBeenCalledTimes(1);
  expect(await scene.guard.read(chargeOf("o-1"))).toMatchObject({
    state: "completed",
    outcome: expect.anything(),
  });
});

test("Bloccs: failure releases key: when no try is left the next delivery may try", async () => {
  const charge = vi.fn(async (): Promise<undefined> => undefined);
  const { push, guard } = createManifestScene(shopOf(charge, { retry: { max: 1 } }));
  charge.mockRejectedValueOnce(new Error("first")).mockRejectedValueOnce(new Error("second"));
  expect((await push(ORDER)).verdict).toBe("later");
  expect(await guard.read(chargeOf("o-1"))).toMatchObject({ state: "released" });
  expect(await push(ORDER)).toMatchObject({ verdict: "acknowledge", isDuplicate: false });
  expect(charge).toHaveBeenCalledTimes(3);
});

test("Bloccs: intent written before the act: while the effect is under way its claim is in the store", async () => {
  const seen: unknown[] = [];
  const scene = createManifestScene(
    shopOf(async () => {
      seen.push(await scene.another().read(chargeOf("o-1")));
      return undefined;
    }),
  );
  await scene.push(ORDER);
  expect(seen).toMatchObject([{ state: "pending", number: 1 }]);
});
