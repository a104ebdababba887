/** Tests how a pipeline closes: it waits for running messages and sends new ones back. */
import { describe, expect, it } from "vitest";
import { startPipeline } from "../../src/pipeline/pipeline.ts";
import { createPipelineScene, modelOf, type Shell } from "./scene.ts";

describe("closing", () => {
  it("waits for running messages, and takes no new ones", async () => {
    let finish = () => {};
    const scene = createPipelineScene({
      nodes: {
        slow: {
          kind: "sink",
          key: "id",
          shell: () =>
            new Promise<void>((resolve) => {
              finish = resolve;
            }),
        },
      },
      in: { orders: "slow.in" },
    });
    const running = scene.pipeline.push("orders", { id: 1 });
    await scene.advance(1);
    const closing = scene.pipeline.close();
    expect(await scene.pipeline.push("orders", { id: 2 })).toMatchObject({
      verdict: "later",
      failures: [{ reason: "stopping" }],
    });
    expect(scene.pipeline.health().status).toBe("stopping");
    finish();
    expect(await scene.settle(closing)).toEqual([]);
    expect((await running).verdict).toBe("acknowledge");
    expect(scene.pipeline.health().status).toBe("stopped");
    expect(scene.reported("stopped")).toEqual(["network stopped"]);
  });

  it("after drainMs fires the signals, returns messages that have not started, and lists the unfinished ones", async () => {
    let isFired = false;
    const scene = createPipelineScene(
      {
        nodes: {
          slow: {
            kind: "sink",
            shell: ((_, { signal }) => {
              signal.addEventListener("abort", () => {
                isFired = true;
              });
              return new Promise(() => {});
            }) satisfies Shell,
          },
        },
        in: { orders: "slow.in" },
      },
      { drainMs: 1_000 },
    );
    void scene.pipeline.push("orders", {}, { id: "running" });
    const waiting = scene.pipeline.push("orders", {}, { id: "waiting" });
    await scene.advance(1);
    const left = await scene.settle(scene.pipeline.close());
    expect(left.map(({ id }) => id)).toEqual(["running", "waiting"]);
    expect(isFired).toBe(true);
    expect(await waiting).toMatchObject({ verdict: "later", failures: [{ reason: "stopping" }] });
  });

  it("cancels a retry that waits: reports retry-lost and releases the key", async () => {
    const scene = createPipelineScene({
      nodes: {
        call: {
          kind: "sink",
          key: "id",
          retry: { max: 3, baseMs: 60_000, capMs: 60_000 },
          shell: () => {
            throw new Error("no");
          },
        },
      },
      in: { orders: "call.in" },
    });
    const push = scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(10);
    await scene.settle(scene.pipeline.close());
    expect(await push).toMatchObject({ verdict: "later", failures: [{ phase: "execute", attempt: 0 }] });
    expect(scene.reported("retrying", "retry-lost")).toEqual(["call retrying", "call retry-lost"]);
    const subject = { operation: "shop/call", scope: "shop|call", key: "o-1" };
    expect(await scene.guard.read(subject)).toMatchObject({ state: "released" });
    expect(scene.world.now()).toBeLessThan(60_000);
  });

  it("does not wait for batches to fill, joins to match or delays to end", async () => {
    const scene = createPipelineScene({
      nodes: {
        bulk: { kind: "sink", batch: { size: 10, withinMs: 60_000 } },
        match: {
          kind: "sink",
          in: ["a", "b"],
          join: { by: "id", withinMs: 60_000, maxPending: 10 },
        },
        hold: { kind: "sink", delayMs: 60_000 },
      },
      in: { bulk: "bulk.in", match: "match.a", hold: "hold.in" },
    });
    const pushes = ["bulk", "match", "hold"].map((port) => scene.pipeline.push(port, { id: 1 }));
    await scene.advance(10);
    await scene.settle(scene.pipeline.close());
    const verdicts = (await Promise.all(pushes)).map(({ verdict }) => verdict);
    expect(verdicts).toEqual(["acknowledge", "later", "later"]);
    expect(scene.world.now()).toBeLessThan(1_000);
  });
});

describe("starting", () => {
  const { guard } = createPipelineScene({ nodes: {} });
  const model = modelOf({
    nodes: { charge: { key: "id", out: ["out"], onLapsed: "hold" } },
    in: { orders: "charge.in" },
    out: { done: "charge.out" },
  });

  it.each([
    ["an option that there is not", { drain: 1 }, /no option called "drain"/],
    [
      "a handler for a port that there is not",
      { on: { dome: () => {} } },
      /on\.dome does not name an out-port .* done/,
    ],
    ["a handler that is no function", { on: { done: 1 } }, /on\.done is 1; it must be a function/],
    ["databases that are no object", { databases: "orders" }, /databases must be an object/],
    ["a drain that is no number", { drainMs: -1 }, /drainMs is -1/],
  ])("refuses %s", (_, options, message) => {
    expect(() => startPipeline(model, guard, options as never)).toThrow(message);
  });

  it("refuses a guard whose policy contradicts a node's", () => {
    const proceeding = guard.with({ onUnavailable: "proceed" });
    expect(() => startPipeline(model, proceeding)).toThrow(/proceed.*hold/);
  });

  it("ignores what an observer throws", async () => {
    const scene = createPipelineScene(
      { nodes: { charge: { kind: "sink" } }, in: { orders: "charge.in" } },
      {
        onEvent: () => {
          throw new Error("no");
        },
      },
    );
    expect((await scene.settle(scene.pipeline.push("orders", {}))).verdict).toBe("acknowledge");
  });
});
