import { describe, expect, it } from "vitest";
import { createPipelineScene, type NetworkSketch, type PipelineScene, type Shell } from "./scene.ts";

/** Three nodes with a key, the last of which is a sink; each notes that it ran. */
function chain(ran: string[], overrides: Partial<NetworkSketch["nodes"]> = {}): NetworkSketch {
  const step =
    (name: string): Shell =>
    (decided, { emit }) => {
      ran.push(name);
      return emit("out", decided);
    };
  return {
    nodes: {
      take: { key: "id", out: ["out"], shell: step("take") },
      price: { key: "id", out: ["out"], shell: step("price") },
      ship: { kind: "sink", key: "id", shell: () => void ran.push("ship") },
      ...(overrides as NetworkSketch["nodes"]),
    },
    edges: ["take.out > price.in", "price.out > ship.in"],
    in: { orders: "take.in" },
  };
}

/** As if the process were gone: nothing is renewed any more, and what it had claimed lapses. */
async function crash(scene: PipelineScene): Promise<void> {
  const closing = scene.guard.close();
  await scene.settle(closing);
  await scene.advance(60_000);
}

const hangs = () => new Promise<never>(() => {});

describe("after a crash", () => {
  it("between mark and settlement, what was kept goes on, and no node is run again", async () => {
    const ran: string[] = [];
    let isCrashing = true;
    const scene = createPipelineScene(
      chain(ran, {
        ship: {
          kind: "sink",
          key: "id",
          shell: () => {
            ran.push("ship");
            return isCrashing ? hangs() : undefined;
          },
        },
      }),
      {},
      { drainMs: 0 },
    );
    void scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(10);
    expect(ran).toEqual(["take", "price", "ship"]);
    await crash(scene);
    isCrashing = false;
    const outcome = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(outcome.verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
    expect(scene.told("recovered", "duplicate")).toEqual(["take recovered", "price recovered"]);
  });

  it("a tree that was settled is not sent on again", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(chain(ran));
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    const outcome = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
    expect(ran).toEqual(["take", "price", "ship"]);
    expect(scene.told("recovered", "duplicate")).toEqual(["take duplicate"]);
  });

  it("a later run of the same key is sent on, whatever was settled of the first", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(
      chain(ran, { price: { kind: "sink", shell: () => void ran.push("price") } }),
    );
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    await scene.guard.reopen({ operation: "shop/take", scope: "shop|take", key: "o-1" });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(ran).toEqual(["take", "price", "take", "price"]);
  });
});

describe("nothing is acknowledged that is not settled", () => {
  it("by whoever was overtaken while it sent it on: what it skipped is in the other's hands", async () => {
    const ran: string[] = [];
    let isSlow = true;
    let isBroken = true;
    const scene = createPipelineScene(
      chain(ran, {
        price: {
          key: "id",
          out: ["out"],
          shell: (async (decided, { emit }) => {
            ran.push("price");
            if (isSlow) {
              isSlow = false;
              await scene.sleep(5_000);
            }
            return emit("out", decided);
          }) satisfies Shell,
        },
        ship: {
          kind: "sink",
          key: "id",
          shell: () => {
            ran.push("ship");
            if (isBroken) throw new Error("no carrier");
          },
        },
      }),
      {},
      { leaseMs: 1_000 },
    );
    for (let i = 0; i < 4; i++) scene.store.plan("renew", "hang");
    const overtaken = scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(2_000);
    const other = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(other.verdict).toBe("later");
    expect((await scene.settle(overtaken)).verdict).toBe("later");
    isBroken = false;
    expect((await scene.settle(scene.again().push("orders", { id: "o-1" }))).verdict).toBe("acknowledge");
    expect(ran.filter((name) => name === "ship").length).toBeGreaterThan(1);
  });

  it("by whoever sends on what another had begun to send on, and given up", async () => {
    const ran: string[] = [];
    let isBroken = true;
    const scene = createPipelineScene(
      chain(ran, {
        take: {
          key: "id",
          out: ["out"],
          shell: ((decided, { emit }) => {
            ran.push("take");
            // The next claim is the one under which it is sent on: it comes late, after the other's.
            scene.store.plan("claim", "delay");
            return emit("out", decided);
          }) satisfies Shell,
        },
        ship: {
          kind: "sink",
          key: "id",
          shell: () => {
            ran.push("ship");
            if (isBroken) throw new Error("no carrier");
          },
        },
      }),
    );
    const first = scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(0);
    expect(ran).toEqual(["take"]);
    const other = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(other.verdict).toBe("later");
    expect(ran).toEqual(["take", "price", "ship"]);
    isBroken = false;
    expect((await scene.settle(first)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
  });

  it("by a second run of a node whose first was never recorded, and had sent something on", async () => {
    const ran: string[] = [];
    let isCrashing = true;
    const scene = createPipelineScene(
      chain(ran, {
        ship: {
          kind: "sink",
          key: "id",
          shell: () => {
            if (isCrashing) return hangs();
            ran.push("ship");
            return undefined;
          },
        },
      }),
      {},
      { drainMs: 0, storeTimeoutMs: 5_000, completeWaitMs: 100 },
    );
    // The mark of the first node: as it is sent, and as it is sent again.
    for (let i = 0; i < 2; i++) scene.store.plan("complete", "hang");
    void scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(1_000);
    expect(ran).toEqual(["take", "price"]);
    // A process that is gone says nothing more.
    scene.store.setRates({ hang: 1 });
    await crash(scene);
    scene.store.setRates({});
    isCrashing = false;
    const outcome = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(outcome.verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "take", "ship"]);
  });
});

describe("a message that failed on its way", () => {
  it("goes on where it failed when it comes again", async () => {
    const ran: string[] = [];
    let isBroken = true;
    const scene = createPipelineScene(
      chain(ran, {
        ship: {
          kind: "sink",
          key: "id",
          shell: () => {
            ran.push("ship");
            if (isBroken) throw new Error("no carrier");
          },
        },
      }),
    );
    const failed = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(failed).toMatchObject({ verdict: "later", failures: [{ node: "ship", phase: "execute" }] });
    isBroken = false;
    expect((await scene.settle(scene.pipeline.push("orders", { id: "o-1" }))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
  });

  it("by a handler outside never runs a node again, and gets out when it comes again", async () => {
    const ran: string[] = [];
    const out: unknown[] = [];
    const scene = createPipelineScene(
      {
        nodes: {
          charge: {
            key: "id",
            out: ["charged"],
            retry: { max: 3 },
            shell: ((decided, { emit }) => {
              ran.push("charge");
              return emit("charged", decided);
            }) satisfies Shell,
          },
        },
        in: { orders: "charge.in" },
        out: { charged: "charge.charged" },
      },
      {
        on: {
          charged(payload, { isRecovered }) {
            if (out.length === 0) {
              out.push("failed");
              throw new Error("the broker is away");
            }
            out.push([payload, isRecovered]);
          },
        },
      },
    );
    const failed = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(failed).toMatchObject({ verdict: "later", failures: [{ node: "charge", phase: "dispatch" }] });
    expect(scene.told("dispatch-failed")).toEqual(["charge dispatch-failed"]);
    expect((await scene.settle(scene.pipeline.push("orders", { id: "o-1" }))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["charge"]);
    expect(out).toEqual(["failed", [{ id: "o-1" }, true]]);
  });

  it.each([
    ["by a port that there is not", ((_, { emit }) => emit("nowhere", 1)) as Shell],
    ["with a reply that nobody declared", ((_, { reply }) => reply(1)) as Shell],
    ["with something else than an emit", (() => "text") as Shell],
    ["with nothing at all", (() => undefined) as Shell],
    ["with a drop among others", ((_, { drop, emit }) => [emit("out", 1), drop()]) as Shell],
  ])("%s is rejected, and its effect is not done again", async (_, shell) => {
    let runs = 0;
    const scene = createPipelineScene({
      nodes: {
        charge: {
          key: "id",
          out: ["out"],
          shell: ((decided, context) => {
            runs++;
            return shell(decided, context);
          }) satisfies Shell,
        },
      },
      in: { orders: "charge.in" },
    });
    for (let delivery = 0; delivery < 2; delivery++) {
      const outcome = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
      expect(outcome).toMatchObject({
        verdict: "reject",
        failures: [{ phase: "dispatch", reason: "wrong-emit" }],
      });
    }
    expect(runs).toBe(1);
  });

  it("is to be sent again while another process sends it on", async () => {
    const ran: string[] = [];
    let finish = () => {};
    const sketch = chain(ran, {
      // No key: it would run twice if two sent to it.
      ship: {
        kind: "sink",
        shell: () => {
          ran.push("ship");
          return new Promise<void>((resolve) => {
            finish = resolve;
          });
        },
      },
    });
    const scene = createPipelineScene(sketch);
    const first = scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(10);
    const second = await scene.settle(scene.again().push("orders", { id: "o-1" }));
    expect(second).toMatchObject({ verdict: "later", failures: [{ node: "take", reason: "pending" }] });
    finish();
    expect((await scene.settle(first)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship"]);
  });

  it("says so loudly if what it emitted cannot be kept", async () => {
    let runs = 0;
    const scene = createPipelineScene({
      nodes: {
        render: {
          key: "id",
          out: ["out"],
          shell: ((_, { emit }) => {
            runs++;
            return emit("out", () => "a function");
          }) satisfies Shell,
        },
        print: {
          kind: "sink",
          shell: () => {
            throw new Error("no paper");
          },
        },
      },
      edges: ["render.out > print.in"],
      in: { pages: "render.in" },
    });
    const first = await scene.settle(scene.pipeline.push("pages", { id: "p-1" }));
    expect(first).toMatchObject({ verdict: "later", failures: [{ node: "print" }] });
    expect(scene.told("not-kept")).toEqual(["render not-kept"]);
    const second = await scene.settle(scene.pipeline.push("pages", { id: "p-1" }));
    expect(second).toMatchObject({ verdict: "reject", failures: [{ node: "render", phase: "dispatch" }] });
    expect(runs).toBe(1);
  });
});

describe("two messages that meet further on", () => {
  it("with one key are one run there, and the second sends nothing on", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(
      chain(ran, {
        price: { key: "sku", out: ["out"] },
        ship: { kind: "sink", shell: () => void ran.push("ship") },
      }),
    );
    for (const id of ["o-1", "o-2"]) {
      const outcome = await scene.settle(scene.pipeline.push("orders", { id, sku: "s-1" }));
      expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: false });
    }
    expect(ran).toEqual(["take", "ship", "take"]);
    expect(scene.told("duplicate", "recovered")).toEqual(["price duplicate"]);
  });
});

describe("a store that does not answer", () => {
  it("means later: nothing was run", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(chain(ran), {}, { storeTimeoutMs: 100 });
    scene.store.setRates({ refuse: 1 });
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(outcome).toMatchObject({
      verdict: "later",
      failures: [{ phase: "claim", reason: "unavailable" }],
    });
    expect(ran).toEqual([]);
  });
});
