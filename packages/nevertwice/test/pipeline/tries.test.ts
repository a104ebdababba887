/** Tests the retries of a node. */
import { describe, expect, it } from "vitest";
import { createPipelineScene, type NodeSketch, type Shell } from "./scene.ts";

const subject = { operation: "shop/charge", scope: "shop|charge", key: "o-1" };

function charging(node: NodeSketch, guardOptions = {}) {
  return createPipelineScene(
    { nodes: { charge: { kind: "sink", key: "id", ...node } }, in: { orders: "charge.in" } },
    {},
    guardOptions,
  );
}

function tagged(tag: string): Error {
  return Object.assign(new Error(tag), { tag });
}

describe("the tries of a message", () => {
  it.each([
    ["constant", [100, 100, 100, 100]],
    ["linear", [100, 200, 250, 250]],
    ["exponential", [100, 200, 250, 250]],
  ] as const)("wait between retries with %s backoff, up to the cap", async (strategy, waits) => {
    const scene = charging({
      retry: { max: 4, strategy, baseMs: 100, capMs: 250 },
      shell: () => {
        throw new Error("no");
      },
    });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    const retrying = scene.events.filter((event) => event.kind === "retrying");
    expect(retrying.map(({ afterMs }) => afterMs)).toEqual(waits);
    expect(retrying.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4]);
  });

  it("all run under one claim, and one success is enough", async () => {
    const seen: unknown[] = [];
    const claims: string[] = [];
    const scene = charging(
      {
        retry: { max: 3 },
        shell: ((_, { attempt, id, trace, fence, deriveKey }) => {
          seen.push({ attempt, id, trace, key: deriveKey("psp"), fence });
          if (attempt < 2) throw new Error("not yet");
        }) satisfies Shell,
      },
      { observer: (event: { kind: string }) => claims.push(event.kind) },
    );
    const outcome = await scene.settle(
      scene.pipeline.push("orders", { id: "o-1" }, { id: "m-1", trace: "t-1" }),
    );
    expect(outcome.verdict).toBe("acknowledge");
    expect(seen).toHaveLength(3);
    expect(new Set(seen.map((each) => JSON.stringify({ ...(each as object), attempt: 0 })))).toHaveProperty(
      "size",
      1,
    );
    expect(claims.filter((kind) => kind === "claimed")).toHaveLength(1);
    expect(scene.events.at(-2)).toMatchObject({ kind: "completed", attempt: 2 });
  });

  it("release the key when they are used up, and the message must be sent again", async () => {
    let isBroken = true;
    const scene = charging({
      retry: { max: 1 },
      shell: () => {
        if (isBroken) throw tagged("card-network");
      },
    });
    const failed = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(failed.verdict).toBe("later");
    expect(failed.failures).toMatchObject([
      { network: "shop", node: "charge", phase: "execute", attempt: 1, reason: "card-network" },
    ]);
    expect(await scene.guard.read(subject)).toMatchObject({ state: "released" });
    isBroken = false;
    expect(await scene.settle(scene.pipeline.push("orders", { id: "o-1" }))).toMatchObject({
      verdict: "acknowledge",
      isDuplicate: false,
    });
  });

  it.each([
    ["its tag", tagged("busy"), ["busy"], 2],
    ["its code", Object.assign(new Error("no"), { code: "ECONNRESET" }), ["ECONNRESET"], 2],
    ["its name", new TypeError("no"), ["TypeError"], 2],
    ["that it is an exception", new Error("no"), ["exception"], 2],
    ["that it is anything else", "just text", ["error"], 2],
    ["none of these", tagged("declined"), ["busy", "timeout", "error"], 1],
  ])("are repeated for reasons that `on` names: %s", async (_, error, on, tries) => {
    let count = 0;
    const scene = charging({
      retry: { max: 1, on },
      shell: () => {
        count++;
        throw error;
      },
    });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(count).toBe(tries);
  });

  it("are repeated when a core throws, as when a shell does", async () => {
    let count = 0;
    const scene = charging({
      retry: { max: 1 },
      core: () => {
        if (count++ === 0) throw new Error("no");
      },
    });
    expect((await scene.settle(scene.pipeline.push("orders", { id: "o-1" }))).verdict).toBe("acknowledge");
    expect(count).toBe(2);
  });
});

describe("a timeout", () => {
  it("fires the signal, and what that try returns later is ignored", async () => {
    const out: unknown[] = [];
    let isFired = false;
    let finish = (_: unknown) => {};
    const scene = createPipelineScene(
      {
        nodes: {
          charge: {
            key: "id",
            out: ["charged"],
            timeoutMs: 1_000,
            retry: { max: 1, on: ["timeout"] },
            shell: ((_, { attempt, emit, signal }) => {
              if (attempt === 1) return emit("charged", "second");
              signal.addEventListener("abort", () => {
                isFired = true;
              });
              return new Promise((resolve) => {
                finish = resolve;
              }).then(() => emit("charged", "first"));
            }) satisfies Shell,
          },
        },
        in: { orders: "charge.in" },
        out: { charged: "charge.charged" },
      },
      { on: { charged: (payload) => out.push(payload) } },
    );
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    finish(undefined);
    await scene.advance(10);
    expect(outcome.verdict).toBe("acknowledge");
    expect(isFired).toBe(true);
    expect(out).toEqual(["second"]);
    expect(scene.events.find(({ kind }) => kind === "retrying")).toMatchObject({ reason: "timeout" });
  });

  it("disables the effects of the try that is over", async () => {
    let late: unknown;
    const scene = createPipelineScene(
      {
        nodes: {
          charge: {
            kind: "sink",
            effects: new Map([["db", { allow: [] }]]),
            timeoutMs: 1_000,
            shell: (async (_, { effects, signal }) => {
              await new Promise((resolve) => signal.addEventListener("abort", resolve));
              try {
                effects.db("orders");
              } catch (error) {
                late = error;
              }
            }) satisfies Shell,
          },
        },
        in: { orders: "charge.in" },
      },
      { databases: { orders: {} } },
    );
    await scene.settle(scene.pipeline.push("orders", {}));
    await scene.advance(1);
    expect(late).toMatchObject({ name: "TimeoutError" });
  });

  it("in the shell ends unknown: a node with on_lapsed = hold does not run again", async () => {
    let runs = 0;
    const scene = charging({
      onLapsed: "hold",
      timeoutMs: 1_000,
      shell: () => {
        runs++;
        return new Promise(() => {});
      },
    });
    const first = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(first).toMatchObject({ verdict: "later", failures: [{ phase: "execute", reason: "timeout" }] });
    const second = await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(second).toMatchObject({ verdict: "later", failures: [{ phase: "claim", reason: "unknown" }] });
    expect(runs).toBe(1);
    expect(scene.reported("later")).toEqual(["charge later"]);
  });

  it("in the shell stays unknown although a later try fails", async () => {
    const scene = charging({
      onLapsed: "hold",
      timeoutMs: 1_000,
      retry: { max: 1 },
      shell: ((_, { attempt }) => {
        if (attempt === 0) return new Promise(() => {});
        throw new Error("declined");
      }) satisfies Shell,
    });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(await scene.settle(scene.pipeline.push("orders", { id: "o-1" }))).toMatchObject({
      failures: [{ reason: "unknown" }],
    });
  });

  it("in the core releases the key, and the shell never starts", async () => {
    let effects = 0;
    let finish = () => {};
    const scene = charging({
      onLapsed: "hold",
      timeoutMs: 1_000,
      core: () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
      shell: () => void effects++,
    });
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    finish();
    await scene.advance(1);
    expect(effects).toBe(0);
    expect(await scene.guard.read(subject)).toMatchObject({ state: "released" });
  });
});

describe("a claim that is lost", () => {
  it("fires the signal and disables the effects", async () => {
    let signal: AbortSignal | undefined;
    let denied: unknown;
    const scene = createPipelineScene(
      {
        nodes: {
          charge: {
            kind: "sink",
            key: "id",
            effects: new Map([["db", { allow: [] }]]),
            shell: (async (_, context) => {
              await scene.sleep(60_000);
              signal = context.signal;
              try {
                context.effects.db("orders");
              } catch (error) {
                denied = error;
              }
            }) satisfies Shell,
          },
        },
        in: { orders: "charge.in" },
      },
      { databases: { orders: {} } },
    );
    const push = scene.pipeline.push("orders", { id: "o-1" });
    await scene.advance(10);
    scene.store.setRates({ refuse: 1 });
    await scene.advance(60_000);
    scene.store.setRates({});
    await scene.settle(push);
    expect(signal?.aborted).toBe(true);
    expect(denied).toBeDefined();
  });
});
