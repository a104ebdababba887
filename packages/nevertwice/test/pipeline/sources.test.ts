import { describe, expect, it } from "vitest";
import type { PushOutcome } from "../../src/pipeline/message-outcome.ts";
import type { NetworkModel, Pulled, SourceShell } from "../../src/pipeline/model.ts";
import { createPipelineScene, type NodeSketch } from "./scene.ts";

function sourcing(shell: SourceShell, note: NodeSketch, supervision?: NetworkModel["supervision"]) {
  return createPipelineScene({
    nodes: { orders: { kind: "source", out: ["out"], shell }, note: { kind: "sink", ...note } },
    edges: ["orders.out > note.in"],
    ...(supervision && { supervision }),
  });
}

const flaky = (strategy: "one-for-one" | "one-for-all") => ({ strategy, restarts: 3, withinMs: 5_000 });

describe("a source", () => {
  it("delivers messages, and gets the outcome of each", async () => {
    const outcomes: [string, PushOutcome["verdict"]][] = [];
    const scene = sourcing(
      async function* (): AsyncGenerator<Pulled> {
        for (const id of ["a", "bad", "c"])
          yield { payload: { id }, id, settled: ({ verdict }) => outcomes.push([id, verdict]) };
      },
      {
        shell: ({ id }: { id: string }) => {
          if (id === "bad") throw new Error("no");
        },
      },
    );
    await scene.settle(scene.pipeline.idle());
    expect(outcomes).toEqual([
      ["a", "acknowledge"],
      ["bad", "later"],
      ["c", "acknowledge"],
    ]);
  });

  it("is not asked for more messages than the network can take", async () => {
    let pulled = 0;
    const scene = sourcing(
      async function* () {
        for (;;) yield { payload: pulled++ };
      },
      { in: { in: { buffer: 2 } }, shell: () => new Promise(() => {}) },
    );
    await scene.advance(100);
    expect(pulled).toBeLessThan(10);
  });

  it("that throws is restarted, and its earlier messages continue", async () => {
    let starts = 0;
    const seen: unknown[] = [];
    const scene = sourcing(
      async function* () {
        starts++;
        yield { payload: starts };
        if (starts < 3) throw new Error("connection lost");
      },
      { shell: (payload: unknown) => void seen.push(payload) },
    );
    await scene.settle(scene.pipeline.idle());
    expect(seen).toEqual([1, 2, 3]);
    expect(scene.reported("restarted", "stopped")).toEqual(["orders restarted", "orders restarted"]);
    expect(scene.pipeline.health()).toMatchObject({ status: "running", nodes: { orders: { restarts: 2 } } });
  });

  it("that throws too often stops the network, with an event", async () => {
    const scene = sourcing(() => {
      throw new Error("wrong password");
    }, {});
    await scene.settle(scene.pipeline.idle());
    expect(scene.reported("restarted", "stopped")).toEqual([
      "orders restarted",
      "orders restarted",
      "orders restarted",
      "orders stopped",
    ]);
    expect(scene.pipeline.health()).toMatchObject({ status: "stopped", error: new Error("wrong password") });
  });

  it("that throws now and then keeps running: only failures close together count", async () => {
    let starts = 0;
    const scene = sourcing(
      async () => {
        starts++;
        await scene.sleep(2_000);
        throw new Error("now and then");
      },
      {},
      flaky("one-for-one"),
    );
    await scene.advance(60_000);
    expect(starts).toBe(30);
    expect(scene.pipeline.health().status).toBe("running");
    await scene.settle(scene.pipeline.close());
  });

  it.each([
    ["one-for-one", 1],
    ["one-for-all", 2],
  ] as const)("%s: the other sources are started %i times in total", async (strategy, starts) => {
    let isBroken = true;
    let others = 0;
    const scene = createPipelineScene({
      nodes: {
        bad: {
          kind: "source",
          out: ["out"],
          shell: async () => {
            await scene.sleep(10);
            if (!isBroken) return [];
            isBroken = false;
            throw new Error("no");
          },
        },
        other: {
          kind: "source",
          out: ["out"],
          async *shell() {
            others++;
            await new Promise(() => {});
            yield { payload: 1 };
          },
        },
        note: { kind: "sink" },
      },
      edges: ["bad.out > note.in", "other.out > note.in"],
      supervision: flaky(strategy),
    });
    await scene.advance(100);
    expect(others).toBe(starts);
    await scene.settle(scene.pipeline.close());
  });

  it("whose acknowledgement fails is reported, and continues", async () => {
    const scene = sourcing(function* () {
      yield {
        payload: 1,
        settled: () => {
          throw new Error("the channel is closed");
        },
      };
      yield { payload: 2 };
    }, {});
    await scene.settle(scene.pipeline.idle());
    await scene.advance(1);
    expect(scene.reported("not-acknowledged")).toEqual(["orders not-acknowledged"]);
    expect(scene.reported("completed").filter((text) => text === "note completed")).toHaveLength(2);
  });
});
