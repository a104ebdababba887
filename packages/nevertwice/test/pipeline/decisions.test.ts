/** Tests messages whose node key was decided by an operator, or written by another program. */
import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/core/engine.ts";
import { reserved } from "../../src/core/reserved.ts";
import { createClaimMethods } from "../../src/functions/claim.ts";
import { createMarks } from "../../src/functions/mark.ts";
import { createPipelineScene, modelOf, type NetworkSketch, type PipelineScene, type Shell } from "./scene.ts";

const CHARGE = { operation: "shop/charge", scope: "shop|charge", key: "o-1" };
const ORDER = { id: "o-1" };

/** The methods of a guard that are not part of its engine. */
const marks = (engine: Engine) => createMarks(engine, () => {});
const claims = (engine: Engine) => createClaimMethods(engine);

/** A node whose tries time out in the shell, so that its outcome is unknown and held, and a node behind it. */
function held(ran: string[], shipped: unknown[]): NetworkSketch {
  return {
    nodes: {
      charge: {
        key: "id",
        onLapsed: "hold",
        timeoutMs: 100,
        out: ["charged", "audited"],
        reply: true,
        shell: (() => {
          ran.push("charge");
          return new Promise<never>(() => {});
        }) satisfies Shell,
      },
      ship: {
        kind: "sink",
        key: "id",
        shell: ((order) => void shipped.push(order)) satisfies Shell,
      },
    },
    edges: ["charge.charged > ship.in", "charge.audited > ship.in"],
    in: { orders: "charge.in" },
  };
}

async function heldScene(): Promise<PipelineScene & { ran: string[]; shipped: unknown[]; fence: number }> {
  const ran: string[] = [];
  const shipped: unknown[] = [];
  const scene = createPipelineScene(held(ran, shipped));
  await scene.settle(scene.pipeline.push("orders", ORDER));
  const [unknown] = (await scene.guard.listUnknown({})).records;
  return { ...scene, ran, shipped, fence: unknown?.fence as number };
}

describe("an operator who decides that a node's work is done", () => {
  it.each([[undefined], [null], [{}], [{ emitted: {} }], [{ emitted: [] }]])(
    "with %j counts as emitting nothing: every later delivery is a duplicate",
    async (value) => {
      const scene = await heldScene();
      expect(await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value })).toBe(
        true,
      );
      const outcome = await scene.settle(scene.pipeline.push("orders", ORDER));
      expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: true, failures: [] });
      expect(scene).toMatchObject({ ran: ["charge"], shipped: [] });
    },
  );

  it("supplies its output by port: it is forwarded once, then every delivery is a duplicate", async () => {
    const scene = await heldScene();
    const value = { emitted: { charged: { id: "o-1", amount: 5 } }, reply: "receipt 7" };
    await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value });
    const first = await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(first).toMatchObject({ verdict: "acknowledge", isDuplicate: false });
    const second = await scene.settle(scene.again().request("orders", ORDER));
    expect(second).toEqual({ status: "replied", value: "receipt 7" });
    expect((await scene.settle(scene.again().push("orders", ORDER))).isDuplicate).toBe(true);
    expect(scene).toMatchObject({ ran: ["charge"], shipped: [{ id: "o-1", amount: 5 }] });
  });

  it("supplies several messages as a list, in that order", async () => {
    const scene = await heldScene();
    const emitted = [
      { port: "charged", payload: { id: "a" } },
      { port: "charged", payload: { id: "b" } },
    ];
    await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value: { emitted } });
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("acknowledge");
    expect(scene.shipped).toEqual([{ id: "a" }, { id: "b" }]);
  });

  it("has the output forwarded again for a later, equal decision on the same key", async () => {
    const scene = await heldScene();
    const value = { emitted: { charged: { id: "o-1" } } };
    await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value });
    await scene.settle(scene.pipeline.push("orders", ORDER));
    await scene.guard.reopen(CHARGE);
    await scene.guard.reopen({ operation: "shop/ship", scope: "shop|ship", key: "o-1" });
    await marks(scene.guard).mark({ ...CHARGE, value });
    await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(scene.shipped).toHaveLength(2);
  });

  it.each([
    ["a text", "done", "it is a string; it must be an object with emitted"],
    ["a list", [], "it is an array; it must be an object with emitted"],
    ["a date", new Date(0), "it is an object of another kind; it must be an object with emitted"],
    ["something else", { transferId: 5 }, "it has transferId"],
    ["an emitted text", { emitted: "charged" }, "emitted is a string"],
    ["a list of payloads", { emitted: [{ id: "o-1" }] }, "emitted[0] must be { port, payload }"],
    [
      "a port that is no text",
      { emitted: [{ port: 1, payload: {} }] },
      "emitted[0] must be { port, payload }",
    ],
    ["a record of a run without its emits", { run: "1" }, "it has run"],
    ["a record of a run with other emits", { run: "1", emits: [["charged"]] }, "it has run, emits"],
    ["a record of a run with an empty reply", { run: "1", emits: [], reply: null }, "it has run, emits"],
  ])("with %s has the message rejected with the problem", async (_, value, problem) => {
    const scene = await heldScene();
    await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value });
    for (let i = 0; i < 2; i++) {
      const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", ORDER));
      expect(verdict).toBe("reject");
      expect(failures).toMatchObject([{ node: "charge", phase: "dispatch", reason: "wrong-outcome" }]);
      expect(String(failures[0]?.error)).toContain(problem);
    }
    expect(scene).toMatchObject({ ran: ["charge"], shipped: [] });
    expect(scene.reported("dispatch-failed")).toHaveLength(2);
  });

  it("on an unknown port has the message rejected with the problem", async () => {
    const scene = await heldScene();
    const value = { emitted: { charge: { id: "o-1" } } };
    await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "done", value });
    const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", ORDER));
    expect(verdict).toBe("reject");
    expect(failures).toMatchObject([{ node: "charge", phase: "dispatch", reason: "unknown-port" }]);
    expect(String(failures[0]?.error)).toContain('has no out-port "charge"');
  });
});

describe("an operator who decides that a node's work failed", () => {
  it.each([[new TypeError("declined")], [undefined], [null], ["declined"], [{ code: 7 }]])(
    "with %j has every later delivery rejected",
    async (error) => {
      const scene = await heldScene();
      await scene.guard.resolve({ ...CHARGE, fence: scene.fence }, { status: "failed", error });
      const outcome = await scene.settle(scene.pipeline.push("orders", ORDER));
      expect(outcome).toMatchObject({
        verdict: "reject",
        failures: [{ node: "charge", phase: "claim", reason: "failed-before" }],
      });
      expect(scene.ran).toEqual(["charge"]);
    },
  );

  it("also decides for a message that is already inside the network", async () => {
    const scene = createPipelineScene({
      nodes: { take: { key: "id", out: ["out"] }, charge: { kind: "sink", key: "id", onLapsed: "hold" } },
      edges: ["take.out > charge.in"],
      in: { orders: "take.in" },
    });
    const claim = await claims(scene.guard).claim({ ...CHARGE, onLapsed: "hold", onFailure: "unknown" });
    if (claim.status !== "claimed") throw new Error(claim.status);
    await claim.fail(new Error("cut off"));
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("later");
    await scene.guard.resolve({ ...CHARGE, fence: claim.fence }, { status: "failed", error: "declined" });
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("reject");
  });
});

describe("a mark on a node's key", () => {
  it("counts as done, in the first node and in later ones", async () => {
    const ran: string[] = [];
    const scene = createPipelineScene({
      nodes: {
        take: { key: "id", out: ["out"] },
        charge: { kind: "sink", key: "id", shell: () => void ran.push("charge") },
      },
      edges: ["take.out > charge.in"],
      in: { orders: "take.in" },
    });
    await marks(scene.guard).mark(CHARGE);
    expect((await scene.settle(scene.pipeline.push("orders", ORDER))).verdict).toBe("acknowledge");
    await marks(scene.guard).mark({ operation: "shop/take", scope: "shop|take", key: "o-2" });
    expect(await scene.settle(scene.pipeline.push("orders", { id: "o-2" }))).toMatchObject({
      verdict: "acknowledge",
      isDuplicate: true,
    });
    expect(ran).toEqual([]);
  });

  it("with a value supplies the output, even for a message that reaches the node for the first time", async () => {
    const scene = await heldScene();
    await marks(scene.guard).mark({ ...CHARGE, key: "o-2", value: { emitted: { charged: { id: "o-2" } } } });
    const network: NetworkSketch = {
      ...held(scene.ran, scene.shipped),
      nodes: { ...held(scene.ran, scene.shipped).nodes, take: { key: "id", out: ["out"] } },
      edges: ["take.out > charge.in", "charge.charged > ship.in", "charge.audited > ship.in"],
      in: { orders: "take.in" },
    };
    const outcome = await scene.settle(scene.again({}, modelOf(network)).push("orders", { id: "o-2" }));
    expect(outcome.verdict).toBe("acknowledge");
    expect(scene.shipped).toEqual([{ id: "o-2" }]);
  });
});

describe("the record of a settlement", () => {
  /** The first delivery fails after the first node; `decide` is what the operator then does to the record. */
  async function decided(
    decide: (
      guard: PipelineScene["guard"],
      subject: { operation: string; scope: string; key: string; fence: number },
    ) => Promise<unknown>,
  ) {
    const ran: string[] = [];
    let isBroken = true;
    const scene = createPipelineScene({
      nodes: {
        take: { key: "id", out: ["out"] },
        ship: {
          kind: "sink",
          shell: () => {
            if (isBroken) throw new Error("no carrier");
            ran.push("ship");
          },
        },
      },
      edges: ["take.out > ship.in"],
      in: { orders: "take.in" },
    });
    await scene.settle(scene.pipeline.push("orders", ORDER));
    const { records } = await scene.guard.list({ scope: "shop|take" });
    const { scope, key, fence } = records.find((record) => record.operation === "nevertwice:settled") as {
      scope: string;
      key: string;
      fence: number;
    };
    await decide(scene.guard, { ...reserved("settled"), scope, key, fence });
    isBroken = false;
    return scene.settle(scene.pipeline.push("orders", ORDER));
  }

  it.each([[undefined], [null], ["settled"], [{ reply: null }]])(
    "may be marked with %j: then the message is settled",
    async (value) => {
      const outcome = await decided((guard, { fence: _, ...subject }) =>
        marks(guard).mark({ ...subject, value }),
      );
      expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
    },
  );

  it("may be marked and forgotten: then the message is settled", async () => {
    const outcome = await decided(async (guard, { fence: _, ...subject }) => {
      await marks(guard).mark(subject);
      await guard.forget(subject);
    });
    expect(outcome).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
  });

  it("may be decided to have failed: then the message is rejected", async () => {
    const outcome = await decided(async (guard, { fence: _, ...subject }) => {
      const claim = await claims(guard).claim({ ...subject, onFailure: "remember" });
      if (claim.status === "claimed") await claim.fail(undefined);
    });
    expect(outcome).toMatchObject({ verdict: "reject", failures: [{ reason: "failed-before" }] });
  });
});
