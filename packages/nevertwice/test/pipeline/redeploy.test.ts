/** Tests a network that is started again with renamed parts, while messages are halfway through it. */
import { describe, expect, it } from "vitest";
import { createPipelineScene, modelOf, type NetworkSketch, type PipelineScene, type Shell } from "./scene.ts";

/** take → price → ship, each with a key; names and ports depend on the deployment. */
function deploy({
  ran,
  first = "take",
  second = "price",
  port = "out",
  isBroken = false,
}: {
  readonly ran: string[];
  readonly first?: string;
  readonly second?: string;
  readonly port?: string;
  readonly isBroken?: boolean;
}): NetworkSketch {
  const step =
    (name: string, out: string): Shell =>
    (decided, { emit }) => {
      ran.push(name);
      return emit(out, decided);
    };
  return {
    nodes: {
      [first]: { key: "id", out: ["out"], shell: step(first, "out") },
      [second]: { key: "id", out: [port], shell: step(second, port) },
      ship: {
        kind: "sink",
        key: "id",
        shell: () => {
          if (isBroken) throw new Error("no carrier");
          ran.push("ship");
        },
      },
    },
    edges: [`${first}.out > ${second}.in`, `${second}.${port} > ship.in`],
    in: { orders: `${first}.in` },
  };
}

/** A first delivery of o-1 that reached the last node, and failed there. */
async function halfWay(ran: string[]): Promise<PipelineScene> {
  const scene = createPipelineScene(deploy({ ran, isBroken: true }));
  await scene.settle(scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" }));
  expect(ran.splice(0)).toEqual(["take", "price"]);
  return scene;
}

function pushTo(scene: PipelineScene, network: NetworkSketch) {
  return scene.settle(scene.again({}, modelOf(network)).push("orders", { id: "o-1" }, { id: "m-1" }));
}

describe("after a redeploy", () => {
  it("with a renamed out-port, output stored for the old port is rejected, and forwarded once the port is back", async () => {
    const ran: string[] = [];
    const scene = await halfWay(ran);
    for (let i = 0; i < 2; i++) {
      const outcome = await pushTo(scene, deploy({ ran, port: "priced" }));
      expect(outcome).toMatchObject({
        verdict: "reject",
        failures: [{ node: "price", phase: "dispatch", reason: "unknown-port" }],
      });
    }
    expect(scene.events.filter(({ kind }) => kind === "dispatch-failed")).toMatchObject([
      { node: "price", port: "out", reason: "unknown-port" },
      { node: "price", port: "out", reason: "unknown-port" },
    ]);
    expect(ran).toEqual([]);
    expect((await pushTo(scene, deploy({ ran }))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship"]);
  });

  it("with a renamed out-port, other output is forwarded, and the rest is still rejected", async () => {
    const ran: string[] = [];
    const network = (ports: readonly string[], isBroken: boolean): NetworkSketch => ({
      nodes: {
        split: {
          key: "id",
          out: ports,
          shell: ((order, { emit }) => ports.map((port) => emit(port, order))) satisfies Shell,
        },
        ...Object.fromEntries(
          ports.map((port) => [
            `to-${port}`,
            {
              kind: "sink",
              key: "id",
              shell: () => {
                if (isBroken) throw new Error("no carrier");
                ran.push(port);
              },
            },
          ]),
        ),
      },
      edges: ports.map((port) => `split.${port} > to-${port}.in`),
      in: { orders: "split.in" },
    });
    const scene = createPipelineScene(network(["mail", "post"], true));
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" }));
    expect((await pushTo(scene, network(["mail", "parcel"], false))).verdict).toBe("reject");
    expect(ran).toEqual(["mail"]);
    expect((await pushTo(scene, network(["mail", "post"], false))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["mail", "post"]);
  });

  it("with a renamed first node, the stored output of later nodes is forwarded", async () => {
    const ran: string[] = [];
    const scene = await halfWay(ran);
    expect((await pushTo(scene, deploy({ ran, first: "accept" }))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["accept", "ship"]);
  });

  it("with a renamed first node, output that only the old network forwards is still owed after a rollback", async () => {
    const ran: string[] = [];
    const sink = (name: string, isBroken: boolean) => ({
      kind: "sink" as const,
      key: "id",
      shell: () => {
        if (isBroken) throw new Error("no carrier");
        ran.push(name);
      },
    });
    /** The first node sends to price and pack; without `hasPack` to price alone. */
    const network = (first: string, hasPack: boolean, isBroken: boolean): NetworkSketch => ({
      nodes: {
        [first]: {
          key: "id",
          out: ["price", "pack"],
          shell: ((order, { emit }) =>
            ["price", ...(hasPack ? ["pack"] : [])].map((port) => emit(port, order))) satisfies Shell,
        },
        price: { key: "id", out: ["out"] },
        ship: sink("ship", isBroken),
        pack: sink("pack", isBroken),
      },
      edges: [`${first}.price > price.in`, "price.out > ship.in", `${first}.pack > pack.in`],
      in: { orders: `${first}.in` },
    });
    const scene = createPipelineScene(network("take", true, true));
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" }));
    expect((await pushTo(scene, network("accept", false, false))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship"]);
    expect((await pushTo(scene, network("take", true, false))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship", "pack"]);
  });

  it("with a renamed first node, a message that the old process still holds gets later", async () => {
    const ran: string[] = [];
    let finish = () => {};
    const hanging = deploy({ ran });
    const scene = createPipelineScene({
      ...hanging,
      nodes: {
        ...hanging.nodes,
        ship: {
          kind: "sink",
          key: "id",
          shell: () =>
            new Promise<void>((resolve) => {
              finish = resolve;
            }),
        },
      },
    });
    const old = scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" });
    await scene.advance(10);
    const outcome = await pushTo(scene, deploy({ ran, first: "accept" }));
    expect(outcome).toMatchObject({ verdict: "later", failures: [{ node: "price", reason: "pending" }] });
    finish();
    expect((await scene.settle(old)).verdict).toBe("acknowledge");
    expect(await pushTo(scene, deploy({ ran, first: "accept" }))).toMatchObject({ verdict: "acknowledge" });
    expect(ran).toEqual(["take", "price", "accept"]);
  });

  it("with a new keyed node in front, the stored output of the old first node is forwarded", async () => {
    const ran: string[] = [];
    const scene = await halfWay(ran);
    const network = deploy({ ran });
    const wider: NetworkSketch = {
      ...network,
      nodes: { gate: { key: "id", out: ["out"] }, ...network.nodes },
      edges: ["gate.out > take.in", ...(network.edges ?? [])],
      in: { orders: "gate.in" },
    };
    expect((await pushTo(scene, wider)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship"]);
  });

  it("with another version of a payload's schema, stored output is rejected and not lost", async () => {
    const ran: string[] = [];
    const scene = await halfWay(ran);
    const network = deploy({ ran });
    const check = () => {
      throw new TypeError("no Order@2");
    };
    const stricter: NetworkSketch = {
      ...network,
      nodes: {
        ...network.nodes,
        ship: { ...network.nodes.ship, in: { in: { schema: { name: "Order@2", check } } } },
      },
    };
    expect(await pushTo(scene, stricter)).toMatchObject({
      verdict: "reject",
      failures: [{ node: "ship", reason: "schema-mismatch" }],
    });
    expect((await pushTo(scene, network)).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship"]);
  });

  it("a message that is split into two with one key is rejected, and does not come back forever", async () => {
    const ran: string[] = [];
    const network = (port: string, isBroken: boolean): NetworkSketch => {
      const { nodes, edges = [] } = deploy({ ran, port, isBroken });
      const twice: Shell = (order, { emit }) => [emit("out", order), emit("out", order)];
      return {
        nodes: { split: { out: ["out"], shell: twice }, ...nodes, take: { ...nodes.take, concurrency: 2 } },
        edges: ["split.out > take.in", ...edges],
        in: { orders: "split.in" },
      };
    };
    const scene = createPipelineScene(network("out", true));
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" }));
    expect((await pushTo(scene, network("priced", false))).verdict).toBe("reject");
    expect((await pushTo(scene, network("out", false))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["take", "price", "ship"]);
  });

  it("that turns an emitting node into a sink, stored output is rejected and not lost", async () => {
    const ran: string[] = [];
    const scene = await halfWay(ran);
    const sink: NetworkSketch = {
      nodes: { take: { kind: "sink", key: "id", shell: () => void ran.push("sink") } },
      in: { orders: "take.in" },
    };
    expect(await pushTo(scene, sink)).toMatchObject({
      verdict: "reject",
      failures: [{ node: "take", reason: "unknown-port" }],
    });
    expect((await pushTo(scene, deploy({ ran }))).verdict).toBe("acknowledge");
    expect(ran).toEqual(["ship"]);
  });
});
