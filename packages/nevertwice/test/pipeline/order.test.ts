/** Tests the order of messages in a network. */
import { describe, expect, it } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { createPipelineScene, type Shell, textField } from "./scene.ts";

describe("a message in a node", () => {
  it("is validated, claimed, decided, carried out, completed and forwarded, in that order", async () => {
    const seen: string[] = [];
    const scene = createPipelineScene(
      {
        nodes: {
          charge: {
            key: "id",
            in: {
              in: {
                schema: {
                  name: "Order@1",
                  check: (payload) => {
                    seen.push("validate");
                    return payload;
                  },
                },
              },
            },
            out: ["charged"],
            core: (payload: { id: string }) => {
              seen.push("core");
              return payload;
            },
            shell: ((decided, { emit }) => {
              seen.push("effect");
              return emit("charged", decided);
            }) satisfies Shell,
          },
        },
        in: { orders: "charge.in" },
        out: { charged: "charge.charged" },
      },
      { on: { charged: () => seen.push("dispatch") } },
      {
        observer: (event) => {
          if ("operation" in event && event.operation === "shop/charge") seen.push(event.kind);
        },
      },
    );
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1" }));
    expect(outcome).toEqual({
      verdict: "acknowledge",
      failures: [],
      isDuplicate: false,
      id: "m-1",
      trace: "m-1",
    });
    expect(seen).toEqual(["validate", "claimed", "core", "effect", "completed", "dispatch"]);
    expect(scene.reported()).toEqual([
      "charge entered",
      "charge started",
      "charge completed",
      "network settled",
    ]);
  });

  it("is rejected if its schema refuses it, and no key is claimed", async () => {
    const scene = createPipelineScene({
      nodes: {
        charge: { kind: "sink", key: "id", in: { in: { schema: textField("id") } }, retry: { max: 3 } },
      },
      in: { orders: "charge.in" },
    });
    const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", { id: 1 }));
    expect(verdict).toBe("reject");
    expect(failures).toMatchObject([
      { network: "shop", node: "charge", phase: "validate", attempt: 0, reason: "schema-mismatch" },
    ]);
    expect(scene.reported()).toEqual(["charge entered", "charge failed", "network settled"]);
  });

  it.each([
    ["a payload that is no object", "text"],
    ["a list", [{ id: "o-1" }]],
    ["nothing", null],
    ["a payload without the field", { other: 1 }],
    ["a field that is empty", { id: "" }],
    ["a field that is null", { id: null }],
    ["a field that only its prototype has", Object.create({ id: "o-1" }) as object],
  ])("is rejected if a declared key is missing: %s", async (_, payload) => {
    let runs = 0;
    const scene = createPipelineScene({
      nodes: { charge: { kind: "sink", key: "id", retry: {}, shell: () => void runs++ } },
      in: { orders: "charge.in" },
    });
    const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", payload));
    expect(verdict).toBe("reject");
    expect(failures).toMatchObject([{ phase: "validate", reason: "key-missing" }]);
    expect(isNevertwiceError(failures[0]?.error, "key-missing")).toBe(true);
    expect(runs).toBe(0);
  });

  it("is rejected if its key is too long, or not text, a number or a boolean", async () => {
    const scene = createPipelineScene({
      nodes: { charge: { kind: "sink", key: "id" } },
      in: { orders: "charge.in" },
    });
    for (const id of ["x".repeat(2_000), { nested: true }, Number.NaN]) {
      const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", { id }));
      expect(verdict).toBe("reject");
      expect(failures).toMatchObject([{ phase: "validate", reason: "key-invalid" }]);
    }
  });

  it("is a duplicate if its key is completed: an event is reported, and nothing is emitted", async () => {
    const out: unknown[] = [];
    const scene = createPipelineScene(
      {
        nodes: { charge: { key: "id", out: ["charged"] } },
        in: { orders: "charge.in" },
        out: { charged: "charge.charged" },
      },
      { on: { charged: (payload) => out.push(payload) } },
    );
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    const again = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(again).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
    expect(out).toEqual([{ id: "o-1" }]);
    expect(scene.reported("completed", "duplicate", "dropped", "recovered")).toEqual([
      "charge completed",
      "charge duplicate",
    ]);
  });

  it("is not a duplicate of a key of another node or network, or of another value or type", async () => {
    const runs: string[] = [];
    const sink = (name: string) => ({
      kind: "sink" as const,
      key: ["tenant", "id"],
      shell: () => void runs.push(name),
    });
    const sketch = { nodes: { a: sink("a"), b: sink("b") }, in: { a: "a.in", b: "b.in" } };
    const scene = createPipelineScene(sketch);
    for (const payload of [
      { tenant: "x", id: 1 },
      { tenant: "x", id: "1" },
      { tenant: "x|#1", id: "z" },
    ]) {
      await scene.settle(scene.pipeline.push("a", payload));
      await scene.settle(scene.pipeline.push("a", payload));
    }
    await scene.settle(scene.pipeline.push("b", { tenant: "x", id: 1 }));
    expect(runs).toEqual(["a", "a", "a", "b"]);
  });

  it("that a node drops is completed, and reported differently from a duplicate", async () => {
    let runs = 0;
    const scene = createPipelineScene({
      nodes: {
        filter: {
          key: "id",
          out: ["out"],
          shell: ((_, { drop }) => {
            runs++;
            return drop("test order");
          }) satisfies Shell,
        },
      },
      in: { orders: "filter.in" },
    });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(runs).toBe(1);
    expect(scene.events.filter(({ kind }) => kind === "dropped" || kind === "duplicate")).toMatchObject([
      { kind: "dropped", reason: "test order" },
      { kind: "duplicate" },
    ]);
  });

  it("is reported with a short hash of the key, never with the key or the payload", async () => {
    const scene = createPipelineScene({
      nodes: { charge: { kind: "sink", key: "card" } },
      in: { orders: "charge.in" },
    });
    await scene.settle(scene.pipeline.push("orders", { card: "4242-secret" }));
    await scene.settle(scene.pipeline.push("orders", { card: "4242-secret" }));
    expect(JSON.stringify(scene.events)).not.toContain("4242");
    expect(scene.events[1]).toMatchObject({
      kind: "started",
      keyHash: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
  });

  it("is refused at a port that is not exposed", async () => {
    const scene = createPipelineScene({
      nodes: { charge: { kind: "sink" } },
      in: { orders: "charge.in" },
    });
    await expect(scene.pipeline.push("order", {})).rejects.toThrow(
      /no in-port "order"; its in-ports are orders/,
    );
  });
});

describe("a thousand deliveries of one key at once", () => {
  it("run once on two pipelines that share a store", async () => {
    let runs = 0;
    const out: unknown[] = [];
    const sketch = {
      nodes: {
        charge: {
          key: "id",
          out: ["charged"],
          concurrency: 64,
          shell: ((decided, { emit }) => {
            runs++;
            return emit("charged", decided);
          }) satisfies Shell,
        },
        ship: { kind: "sink" as const, concurrency: 8, shell: (decided: unknown) => void out.push(decided) },
      },
      edges: ["charge.charged > ship.in"],
      in: { orders: "charge.in" },
    };
    const scene = createPipelineScene(sketch);
    const pipelines = [scene.pipeline, scene.again()];
    const pushes = Array.from({ length: 1_000 }, (_, index) =>
      (pipelines[index % 2] as typeof scene.pipeline).push("orders", { id: "o-1" }),
    );
    const outcomes = await scene.settle(Promise.all(pushes));
    expect(runs).toBe(1);
    expect(out).toEqual([{ id: "o-1" }]);
    expect(
      outcomes.filter(({ isDuplicate, verdict }) => verdict === "acknowledge" && !isDuplicate),
    ).toHaveLength(1);
    expect(
      outcomes.every(
        ({ verdict, failures }) => verdict === "acknowledge" || failures[0]?.reason === "pending",
      ),
    ).toBe(true);
    const later = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(later).toMatchObject({ verdict: "acknowledge", isDuplicate: true });
  });
});
