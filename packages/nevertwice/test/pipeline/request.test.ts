/** Tests requests and replies over a pipeline. */
import { describe, expect, it } from "vitest";
import { createPipelineScene, modelOf, type NetworkSketch, type Shell } from "./scene.ts";

/** Takes an order, then charges it and replies; both have a key. */
function shop(charge: Shell = (_, { reply }) => reply("receipt")): NetworkSketch {
  return {
    nodes: {
      take: { key: "id", out: ["out"] },
      charge: { kind: "sink", key: "id", reply: true, shell: charge },
    },
    edges: ["take.out > charge.in"],
    in: { orders: "take.in" },
  };
}

describe("a request", () => {
  it("returns what a later node replies", async () => {
    const scene = createPipelineScene(shop());
    expect(await scene.settle(scene.pipeline.request("orders", { id: "o-1" }))).toEqual({
      status: "replied",
      value: "receipt",
    });
    expect(scene.reported("request-started", "request-ended")).toEqual([
      "network request-started",
      "network request-ended",
    ]);
    expect(scene.events.find(({ kind }) => kind === "request-ended")).toMatchObject({ ending: "replied" });
  });

  it("that is a duplicate gets the stored reply, and nothing runs again", async () => {
    let runs = 0;
    const scene = createPipelineScene(
      shop((_, { reply }) => {
        runs++;
        return reply({ number: runs });
      }),
    );
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    for (const pipeline of [scene.pipeline, scene.again()])
      expect(await scene.settle(pipeline.request("orders", { id: "o-1" }))).toEqual({
        status: "replied",
        value: { number: 1 },
      });
    expect(runs).toBe(1);
  });

  it("that is a duplicate of the replying node itself gets the reply too", async () => {
    const scene = createPipelineScene({
      nodes: {
        charge: {
          kind: "sink",
          key: "id",
          reply: true,
          shell: ((_, { reply }) => reply("receipt")) satisfies Shell,
        },
      },
      in: { orders: "charge.in" },
    });
    for (let time = 0; time < 2; time++)
      expect(await scene.settle(scene.pipeline.request("orders", { id: "o-1" }))).toMatchObject({
        value: "receipt",
      });
  });

  it("waits while another pipeline has the key, and gets its reply", async () => {
    let runs = 0;
    let finish = () => {};
    const scene = createPipelineScene(
      shop((_, { reply }) => {
        runs++;
        return new Promise<void>((resolve) => {
          finish = resolve;
        }).then(() => reply("receipt"));
      }),
    );
    const first = scene.pipeline.request("orders", { id: "o-1" });
    await scene.advance(10);
    const second = scene.again().request("orders", { id: "o-1" });
    await scene.advance(1_000);
    finish();
    expect(await scene.settle(Promise.all([first, second]))).toEqual([
      { status: "replied", value: "receipt" },
      { status: "replied", value: "receipt" },
    ]);
    expect(runs).toBe(1);
  });

  it("that waits for another does not block the node", async () => {
    const scene = createPipelineScene(shop((_, { reply, id }) => (id ? reply("receipt") : undefined)));
    let finish = () => {};
    const other = scene.again(
      {},
      modelOf(
        shop((_, { reply }) =>
          new Promise<void>((resolve) => {
            finish = resolve;
          }).then(() => reply("receipt")),
        ),
      ),
    );
    const first = other.request("orders", { id: "o-1" });
    await scene.advance(10);
    const waiting = scene.pipeline.request("orders", { id: "o-1" });
    await scene.advance(10);
    expect((await scene.settle(scene.pipeline.push("orders", { id: "o-2" }))).verdict).toBe("acknowledge");
    expect(scene.pipeline.health()).toMatchObject({ underWay: 1 });
    finish();
    expect(await scene.settle(Promise.all([first, waiting]))).toMatchObject([
      { value: "receipt" },
      { value: "receipt" },
    ]);
  });

  it("reports its failure with node, phase and attempt", async () => {
    const scene = createPipelineScene(
      shop(() => {
        throw new TypeError("no card");
      }),
    );
    expect(await scene.settle(scene.pipeline.request("orders", { id: "o-1" }))).toMatchObject({
      status: "failed",
      outcome: {
        verdict: "later",
        failures: [{ network: "shop", node: "charge", phase: "execute", attempt: 0, reason: "TypeError" }],
      },
    });
  });

  it("times out after timeoutMs; the work continues, and its reply can be requested again", async () => {
    let finish = () => {};
    const scene = createPipelineScene(
      shop((_, { reply }) =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }).then(() => reply("late")),
      ),
    );
    const first = await scene.settle(scene.pipeline.request("orders", { id: "o-1" }, { timeoutMs: 500 }));
    expect(first).toEqual({ status: "timed-out" });
    finish();
    await scene.advance(10);
    expect(await scene.settle(scene.pipeline.request("orders", { id: "o-1" }))).toMatchObject({
      value: "late",
    });
  });

  it("without a reply returns no-reply as soon as everything is done", async () => {
    const scene = createPipelineScene(shop(() => undefined));
    expect(await scene.settle(scene.pipeline.request("orders", { id: "o-1" }))).toMatchObject({
      status: "no-reply",
      outcome: { verdict: "acknowledge" },
    });
  });
});
