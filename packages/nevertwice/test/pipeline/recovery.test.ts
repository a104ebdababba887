/** Tests how a pipeline recovers messages after a crash. */
import { describe, expect, it } from "vitest";
import { createPipelineScene, type NetworkSketch, type PipelineScene, type Shell } from "./scene.ts";

/** Three nodes with a key, the last of which is a sink; each records that it ran. */
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

/** Simulates a killed process: nothing is renewed any more, and its claims lapse. */
async function crash(scene: PipelineScene): Promise<void> {
  const closing = scene.guard.close();
  await scene.settle(closing);
  await scene.advance(60_000);
}

const hangs = () => new Promise<never>(() => {});

const ORDER = { id: "o-1" };

/** A sink with a key that records its run and then does what `next` says, until `isHealed`. */
function failingSink(ran: string[], next: () => unknown, key = "id") {
  const state = { isHealed: false };
  const shell = () => {
    ran.push("ship");
    return state.isHealed ? undefined : next();
  };
  return { state, ship: { kind: "sink", key, shell } as const };
}

const noCarrier = () => {
  throw new Error("no carrier");
};

/** A sink without a key that runs until the test finishes it. */
function waitingSink(ran: string[]) {
  const waiting = { finish() {} };
  const shell = () => {
    ran.push("ship");
    return new Promise<void>((resolve) => {
      waiting.finish = resolve;
    });
  };
  return { waiting, ship: { kind: "sink", shell } as const };
}

describe("after a crash", () => {
  it("between completion and settlement, the stored output is forwarded, and no node runs again", async () => {
    const ran: string[] = [];
    const { ship, state } = failingSink(ran, hangs);
    const scene = createPipelineScene(chain(ran, { ship }), {}, { drainMs: 0 });
    void scene.pipeline.push("orders", ORDER);
    await scene.advance(10);
    expect(ran).toEqual(["take", "price", "ship"]);
    await crash(scene);
    state.isHealed = true;
    const outcome = await scene.settle(scene.again().push("orders", ORDER));
    expect(outcome.verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
    expect(scene.reported("recovered", "duplicate")).toEqual(["take recovered", "price recovered"]);
  });

  it("settled output is not forwarded again", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(chain(ran));
    await scene.settle(scene.pipeline.push("orders", ORDER));
    const outcome = await scene.settle(scene.again().push("orders", ORDER));
    expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
    expect(ran).toEqual(["take", "price", "ship"]);
    expect(scene.reported("recovered", "duplicate")).toEqual(["take duplicate"]);
  });

  it("the output of a later run of the same key is forwarded, although the first is settled", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(
      chain(ran, { price: { kind: "sink", shell: () => void ran.push("price") } }),
    );
    await scene.settle(scene.pipeline.push("orders", ORDER));
    await scene.guard.reopen({ operation: "shop/take", scope: "shop|take", key: "o-1" });
    await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(ran).toEqual(["take", "price", "take", "price"]);
  });
});

describe("nothing is acknowledged that is not settled", () => {
  it("by a process that was overtaken while forwarding: the other process holds what it skipped", async () => {
    const ran: string[] = [];
    let isSlow = true;
    const { ship, state } = failingSink(ran, noCarrier);
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
        ship,
      }),
      {},
      { leaseMs: 1_000 },
    );
    for (let i = 0; i < 4; i++) scene.store.plan("renew", "hang");
    const overtaken = scene.pipeline.push("orders", ORDER);
    await scene.advance(2_000);
    const other = await scene.settle(scene.again().push("orders", ORDER));
    expect(other.verdict).toBe("later");
    expect((await scene.settle(overtaken)).verdict).toBe("later");
    state.isHealed = true;
    expect((await scene.settle(scene.again().push("orders", ORDER))).verdict).toBe("acknowledge");
    expect(ran.filter((name) => name === "ship").length).toBeGreaterThan(1);
  });

  it("by a process that continues forwarding where another gave up", async () => {
    const ran: string[] = [];
    const { ship, state } = failingSink(ran, noCarrier);
    const scene = createPipelineScene(
      chain(ran, {
        take: {
          key: "id",
          out: ["out"],
          shell: ((decided, { emit }) => {
            ran.push("take");
            // The next claim is the settlement: it is late, after the other process's claim.
            scene.store.plan("claim", "delay");
            return emit("out", decided);
          }) satisfies Shell,
        },
        ship,
      }),
    );
    const first = scene.pipeline.push("orders", ORDER);
    await scene.advance(0);
    expect(ran).toEqual(["take"]);
    const other = await scene.settle(scene.again().push("orders", ORDER));
    expect(other.verdict).toBe("later");
    expect(ran).toEqual(["take", "price", "ship"]);
    state.isHealed = true;
    expect((await scene.settle(first)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
  });

  it.each([1_000, 0])(
    "by a network whose settlement the store has not confirmed, with completeWaitMs %i",
    async (completeWaitMs) => {
      const ran: string[] = [];
      const shell = () => {
        ran.push("ship");
        // The next completion is that of the settlement, since this node has no key.
        scene.store.plan("complete", "refuse");
      };
      const scene = createPipelineScene(
        chain(ran, { ship: { kind: "sink", shell } }),
        {},
        { completeWaitMs },
      );
      const outcome = await scene.settle(scene.pipeline.push("orders", ORDER));
      expect(outcome).toMatchObject({
        verdict: "later",
        failures: [{ node: "take", reason: "unavailable" }],
      });
      await scene.advance(1_000);
      const again = await scene.settle(scene.again().push("orders", ORDER));
      expect(again).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
      expect(ran).toEqual(["take", "price", "ship"]);
    },
  );

  it("by a second run of a node whose first run forwarded output but was never recorded", async () => {
    const ran: string[] = [];
    const { ship, state } = failingSink(ran, hangs);
    const scene = createPipelineScene(
      chain(ran, { ship }),
      {},
      { drainMs: 0, storeTimeoutMs: 5_000, completeWaitMs: 100 },
    );
    // The completion of the first node: its first call, and the repeated call.
    for (let i = 0; i < 2; i++) scene.store.plan("complete", "hang");
    void scene.pipeline.push("orders", ORDER);
    await scene.advance(1_000);
    expect(ran).toEqual(["take", "price", "ship"]);
    // A killed process makes no further calls to the store.
    scene.store.setRates({ hang: 1 });
    await crash(scene);
    scene.store.setRates({});
    state.isHealed = true;
    const outcome = await scene.settle(scene.again().push("orders", ORDER));
    expect(outcome.verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "take", "ship"]);
  });
});

describe("a message that failed inside the network", () => {
  it("continues where it failed when it comes again", async () => {
    const ran: string[] = [];
    const { ship, state } = failingSink(ran, noCarrier);
    const scene = createPipelineScene(chain(ran, { ship }));
    const failed = await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(failed).toMatchObject({ verdict: "later", failures: [{ node: "ship", phase: "execute" }] });
    state.isHealed = true;
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship", "ship"]);
  });

  it("in an output handler runs no node again, and leaves the network when it comes again", async () => {
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
    const failed = await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(failed).toMatchObject({ verdict: "later", failures: [{ node: "charge", phase: "dispatch" }] });
    expect(scene.reported("dispatch-failed")).toEqual(["charge dispatch-failed"]);
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["charge"]);
    expect(out).toEqual(["failed", [{ id: "o-1" }, true]]);
  });

  it.each([
    ["by a port that there is not", ((_, { emit }) => emit("nowhere", 1)) as Shell],
    ["with a reply that is not declared", ((_, { reply }) => reply(1)) as Shell],
    ["with something else than an emit", (() => "text") as Shell],
    ["with nothing at all", (() => undefined) as Shell],
    ["with a drop among others", ((_, { drop, emit }) => [emit("out", 1), drop()]) as Shell],
  ])("%s is rejected, and its effect is not repeated", async (_, shell) => {
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
      const outcome = await scene.settle(scene.pipeline.push("orders", ORDER));
      expect(outcome).toMatchObject({
        verdict: "reject",
        failures: [{ phase: "dispatch", reason: "wrong-emit" }],
      });
    }
    expect(runs).toBe(1);
  });

  it("must be sent again while another pipeline forwards it", async () => {
    const ran: string[] = [];
    // It has no key: it would run twice if two processes forwarded to it.
    const { ship, waiting } = waitingSink(ran);
    const scene = createPipelineScene(chain(ran, { ship }));
    const first = scene.pipeline.push("orders", ORDER);
    await scene.advance(10);
    const second = await scene.settle(scene.again().push("orders", ORDER));
    expect(second).toMatchObject({ verdict: "later", failures: [{ node: "take", reason: "pending" }] });
    waiting.finish();
    expect((await scene.settle(first)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship"]);
  });

  it("reports not-kept if its output cannot be stored", async () => {
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
    expect(scene.reported("not-kept")).toEqual(["render not-kept"]);
    const second = await scene.settle(scene.pipeline.push("pages", { id: "p-1" }));
    expect(second).toMatchObject({ verdict: "reject", failures: [{ node: "render", phase: "dispatch" }] });
    expect(runs).toBe(1);
  });
});

describe("two messages that meet in a later node", () => {
  it("with one key cause one run there, and the second forwards nothing", async () => {
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
    expect(scene.reported("duplicate", "recovered")).toEqual(["price duplicate"]);
  });

  it("do not wait for each other: the second is done while the first is still in the network", async () => {
    const ran: string[] = [];
    const { ship, waiting } = waitingSink(ran);
    const scene = createPipelineScene(chain(ran, { price: { key: "sku", out: ["out"] }, ship }));
    const first = scene.pipeline.push("orders", { id: "o-1", sku: "s-1" });
    await scene.advance(10);
    const second = await scene.settle(scene.pipeline.push("orders", { id: "o-2", sku: "s-1" }));
    expect(second.verdict).toBe("acknowledge");
    waiting.finish();
    expect((await scene.settle(first)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "ship", "take"]);
  });

  it("forward what the other one forwarded without reaching its end", async () => {
    const ran: string[] = [];
    const { ship, state } = failingSink(ran, noCarrier, "sku");
    const scene = createPipelineScene(chain(ran, { price: { key: "sku", out: ["out"] }, ship }));
    const failed = await scene.settle(scene.pipeline.push("orders", { id: "o-1", sku: "s-1" }));
    expect(failed.verdict).toBe("later");
    state.isHealed = true;
    const second = await scene.settle(scene.pipeline.push("orders", { id: "o-2", sku: "s-1" }));
    expect(second.verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "ship", "take", "ship"]);
    expect((await scene.settle(scene.pipeline.push("orders", { id: "o-1", sku: "s-1" }))).verdict).toBe(
      "acknowledge",
    );
    expect(ran).toEqual(["take", "ship", "take", "ship"]);
  });
});

describe("a store that does not answer", () => {
  it("has the verdict later: nothing was run", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene(chain(ran), {}, { storeTimeoutMs: 100 });
    scene.store.setRates({ refuse: 1 });
    const outcome = await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(outcome).toMatchObject({
      verdict: "later",
      failures: [{ phase: "claim", reason: "unavailable" }],
    });
    expect(ran).toEqual([]);
  });
});
