/** Tests messages when nodes, stores and processes fail, and how keys are cleared. */
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { definePipeline } from "../../src/pipeline/index.ts";
import type { Pulled } from "../../src/pipeline/model.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { page } from "../documents.ts";
import { held } from "../functions/guard-scene.ts";
import {
  chargeOf,
  createManifestScene,
  KEYED,
  nodeOf,
  type Order,
  SECOND_MS,
  shopOf,
} from "./manifest-scene.ts";

const ORDER = { id: "o-1" };

test("Bloccs: store down at claim: fail open: with `onUnavailable: proceed`, and then it is told; otherwise nothing runs", async () => {
  const charge = vi.fn(() => undefined);
  const closed = createManifestScene(shopOf(charge), {}, { storeTimeoutMs: 100 });
  closed.store.setRates({ refuse: 1 });
  expect(await closed.push(ORDER)).toMatchObject({
    verdict: "later",
    failures: [{ phase: "claim", reason: "unavailable" }],
  });
  expect(charge).not.toHaveBeenCalled();
  const open = createManifestScene(shopOf(charge), {}, { storeTimeoutMs: 100, onUnavailable: "proceed" });
  open.store.setRates({ refuse: 1 });
  expect((await open.push(ORDER)).verdict).toBe("acknowledge");
  expect(charge).toHaveBeenCalledTimes(1);
  expect(open.guardEvents.map(({ kind }) => kind)).toContain("proceeded");
});

test("Bloccs: panic/exception releases: whatever is thrown, in the core or in the shell", async () => {
  for (const thrown of [new RangeError("too deep"), "text", undefined, { tag: "card-network" }]) {
    for (const where of ["pure_core", "effect_shell"] as const) {
      const work = vi.fn((): undefined => {
        throw thrown;
      });
      const { push, guard } = createManifestScene(shopOf(() => undefined, { [where]: work }));
      expect((await push(ORDER)).verdict).toBe("later");
      expect(await guard.read(chargeOf("o-1"))).toMatchObject({ state: "released" });
      work.mockImplementation(() => undefined);
      expect(await push(ORDER)).toMatchObject({ verdict: "acknowledge", isDuplicate: false });
    }
  }
});

test("Bloccs: honest crash boundary documented: the page says what a crash between effect and mark means", async () => {
  const words = await page("docs/pipeline-running.md");
  expect(words).toContain("crash between its effect and its completion means a second try");
  expect(words).toContain('`deriveKey` and `on_lapsed = "hold"`');
});

test("Bloccs: transactional outbox pointer: the page shows the way, and a source can read an outbox", async () => {
  expect(await page("docs/pipeline.md")).toContain("outbox");
  // What a transaction wrote beside the order itself.
  const outbox = new Map([["row-1", { id: "o-1" }]]);
  function* rows(): Generator<Pulled> {
    for (const [row, payload] of outbox)
      yield {
        payload,
        id: row,
        settled: ({ verdict }) => verdict === "acknowledge" && outbox.delete(row),
      };
  }
  const charge = vi.fn(() => undefined);
  const source = {
    node: { id: "outbox", version: "1.0.0", kind: "source" },
    ports: { out: { orders: {} } },
    contract: { effect_shell: rows },
  } as const;
  const manifest = {
    network: { id: "shop", version: "1.0.0" },
    nodes: { outbox: { use: source }, charge: nodeOf("charge", charge, KEYED) },
    edges: [{ from: "outbox.orders", to: "charge.in" }],
  };
  const scene = createManifestScene(manifest);
  await scene.settle(scene.pipeline.idle());
  expect([charge.mock.calls.length, outbox.size]).toEqual([1, 0]);
});

test("Bloccs: in-memory: a pipeline needs no server, and what it remembers is gone with the process", async () => {
  const charge = vi.fn(() => undefined);
  for (const isDuplicate of [false, true]) {
    const guard = createGuard({ store: memoryStore() });
    const pipeline = await definePipeline(shopOf(charge)).start(guard);
    expect(await pipeline.push("orders", ORDER)).toMatchObject({ isDuplicate: false });
    if (isDuplicate) expect(await pipeline.push("orders", ORDER)).toMatchObject({ isDuplicate });
    await pipeline.close();
    await guard.close();
  }
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: clear key / reset: one key, or all of a node, may be done again; forgetting is not that", async () => {
  const guard = createGuard({ store: memoryStore() });
  const charge = vi.fn(() => undefined);
  const pipeline = await definePipeline(shopOf(charge)).start(guard);
  const pushAll = async () => {
    for (const id of ["o-1", "o-2", "o-3"]) await pipeline.push("orders", { id });
    return charge.mock.calls.length;
  };
  await pushAll();
  expect(await guard.release(chargeOf("o-1"))).toBe(true);
  expect(await pushAll()).toBe(4);
  const { records } = await guard.list({ scope: chargeOf("").scope });
  const all = records.map(({ key = "" }) => chargeOf(key));
  expect(await guard.releaseBatch(all)).toEqual([true, true, true]);
  expect(await pushAll()).toBe(7);
  // What was kept of it is gone; that it was done is not.
  expect(await guard.forget(chargeOf("o-1"))).toBe(true);
  expect(await pushAll()).toBe(7);
  await pipeline.close();
  await guard.close();
});

test("Bloccs: close / shutdown drain: what is under way is waited for, what comes is sent back, and what is left is named", async () => {
  const { work: shell, finish } = held<undefined>();
  const scene = createManifestScene(
    shopOf((order: Order) => (order.id === "stuck" ? new Promise(() => {}) : shell())),
    { drainMs: SECOND_MS },
  );
  const running = scene.pipeline.push("orders", ORDER);
  await scene.advance(1);
  const closing = scene.pipeline.close();
  expect(await scene.push({ id: "o-2" })).toMatchObject({
    verdict: "later",
    failures: [{ reason: "stopping" }],
  });
  finish(undefined);
  expect(await scene.settle(closing)).toEqual([]);
  expect((await running).verdict).toBe("acknowledge");
  const other = scene.again();
  void other.push("orders", { id: "stuck" }, { id: "m-1" });
  await scene.advance(1);
  expect(await scene.settle(other.close())).toEqual([{ id: "m-1", trace: "m-1" }]);
});

test("Bloccs: lost-retry releases the key: a network that stops says so, and the next delivery may try", async () => {
  const charge = vi.fn(async (): Promise<undefined> => undefined);
  charge.mockRejectedValueOnce(new Error("no answer"));
  const scene = createManifestScene(shopOf(charge, { retry: { max: 3, base: "10s" } }));
  const pushed = scene.pipeline.push("orders", ORDER);
  await scene.advance(SECOND_MS);
  expect(scene.told("retrying")).toEqual(["charge retrying"]);
  await scene.settle(scene.pipeline.close());
  expect(await pushed).toMatchObject({ verdict: "later" });
  expect(scene.told("retry-lost")).toEqual(["charge retry-lost"]);
  expect(await scene.guard.read(chargeOf("o-1"))).toMatchObject({ state: "released" });
  expect(await scene.settle(scene.again().push("orders", ORDER))).toMatchObject({
    verdict: "acknowledge",
    isDuplicate: false,
  });
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: delivery failure after effect not re-run: what could not be sent on is, when the message comes again", async () => {
  const charge = vi.fn((order: Order, { emit }) => emit("charged", order));
  const out = vi.fn(async (_: Order) => {});
  out.mockRejectedValueOnce(new Error("the broker is away"));
  const manifest = {
    ...shopOf(
      charge,
      { retry: { max: 3 } },
      { kind: "transform", ports: { in: { in: {} }, out: { charged: {} } } },
    ),
    expose: { in: { orders: "charge.in" }, out: { charged: "charge.charged" } },
  };
  const { push, told } = createManifestScene(manifest, { on: { charged: out } });
  expect(await push(ORDER)).toMatchObject({ verdict: "later", failures: [{ phase: "dispatch" }] });
  expect((await push(ORDER)).verdict).toBe("acknowledge");
  expect([charge.mock.calls.length, out.mock.calls.length]).toEqual([1, 2]);
  expect(told("dispatch-failed", "retrying", "recovered")).toEqual([
    "charge dispatch-failed",
    "charge recovered",
  ]);
});
