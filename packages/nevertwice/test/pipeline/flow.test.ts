/** Tests how messages flow through a network. */
import { describe, expect, it } from "vitest";
import type { ShellContext } from "../../src/pipeline/model.ts";
import { createPipelineScene, type NodeSketch, type Shell, textField } from "./scene.ts";

interface Seen {
  readonly payload: unknown;
  readonly atMs: number;
  readonly context: ShellContext;
}

/** A sink that records its payloads. */
function noting(seen: Seen[], now: () => number, sketch: NodeSketch = {}): NodeSketch {
  const shell: Shell<unknown> = (payload, context) => void seen.push({ payload, atMs: now(), context });
  return { kind: "sink", shell, ...sketch };
}

describe("edges", () => {
  it("fan out, merge, split and route; a message is settled when all its output is", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: {
        split: {
          out: ["line"],
          shell: ((order, { emit }) => order.lines.map((line) => emit("line", line))) satisfies Shell<{
            lines: number[];
          }>,
        },
        route: {
          kind: "router",
          out: ["even", "odd"],
          shell: ((line, { emit }) => emit(line % 2 === 0 ? "even" : "odd", line)) satisfies Shell<number>,
        },
        left: noting(seen, () => 0),
        right: noting(seen, () => 0),
      },
      edges: ["split.line > route.in", "route.even > left.in", "route.odd > right.in", "route.odd > left.in"],
      in: { orders: "split.in" },
    });
    const outcome = await scene.settle(
      scene.pipeline.push("orders", { lines: [1, 2, 3] }, { id: "m", trace: "t" }),
    );
    expect(outcome.verdict).toBe("acknowledge");
    expect(seen.map(({ payload }) => payload).sort()).toEqual([1, 1, 2, 3, 3]);
    expect(new Set(seen.map(({ context }) => context.trace))).toEqual(new Set(["t"]));
    const [line] = scene.events.filter((event) => event.kind === "started" && event.node === "route");
    expect(line).toMatchObject({ parents: ["m"], trace: "t" });
    for (const { context } of seen) expect(context.parents).not.toContain("m");
  });

  it("give the output the same ids when the message comes again", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: { pass: { out: ["out"] }, note: noting(seen, () => 0) },
      edges: ["pass.out > note.in"],
      in: { orders: "pass.in" },
    });
    for (const id of ["m-1", "m-1", "m-2"]) await scene.settle(scene.pipeline.push("orders", {}, { id }));
    const [first, second, third] = seen.map(({ context }) => context.id);
    expect(first).toBe(second);
    expect(first).not.toBe(third);
  });

  it("finish the other branches when one fails, and the verdict is later", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: {
        fan: { out: ["out"] },
        bad: {
          kind: "sink",
          shell: () => {
            throw new Error("no");
          },
        },
        strict: { kind: "sink", in: { in: { schema: textField("id") } } },
        good: noting(seen, () => 0),
      },
      edges: ["fan.out > bad.in", "fan.out > strict.in", "fan.out > good.in"],
      in: { orders: "fan.in" },
    });
    const { verdict, failures } = await scene.settle(scene.pipeline.push("orders", {}));
    expect(verdict).toBe("later");
    expect(failures.map(({ node, verdict: each }) => [node, each])).toEqual([
      ["bad", "later"],
      ["strict", "reject"],
    ]);
    expect(seen).toHaveLength(1);
  });

  it("do not let a payload out that does not match the schema of its exposed port", async () => {
    const out: unknown[] = [];
    const scene = createPipelineScene(
      {
        nodes: { pass: { out: { out: { schema: textField("id") } } } },
        in: { orders: "pass.in" },
        out: { done: "pass.out" },
      },
      { on: { done: (payload) => out.push(payload) } },
    );
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: 7 }));
    expect(outcome).toMatchObject({
      verdict: "reject",
      failures: [{ phase: "dispatch", reason: "schema-mismatch" }],
    });
    expect(out).toEqual([]);
  });
});

describe("back-pressure", () => {
  it("makes the sender wait when the buffers are full, and loses nothing", async () => {
    let finish: (() => void)[] = [];
    const scene = createPipelineScene({
      nodes: {
        pass: { out: ["out"], in: { in: { buffer: 2 } } },
        slow: {
          kind: "sink",
          in: { in: { buffer: 1 } },
          shell: () => new Promise<void>((resolve) => finish.push(resolve)),
        },
      },
      edges: ["pass.out > slow.in"],
      in: { orders: "pass.in" },
    });
    const pushes = Array.from({ length: 10 }, (_, index) => scene.pipeline.push("orders", index));
    await scene.advance(10);
    const { nodes } = scene.pipeline.health();
    expect(nodes.slow).toMatchObject({ active: 1 });
    // One in the slow node, one in its buffer, one that waits for a place there, and two in the first buffer.
    expect(nodes.pass).toMatchObject({ active: 1, waiting: 7 });
    expect(scene.reported("back-pressure").length).toBeGreaterThan(0);
    let isDone = false;
    const all = Promise.all(pushes).finally(() => {
      isDone = true;
    });
    while (!isDone) {
      const now = finish;
      finish = [];
      for (const end of now) end();
      await scene.advance(1);
    }
    expect((await all).every(({ verdict }) => verdict === "acknowledge")).toBe(true);
  });

  it("lets the sender stop waiting, for a place or for the outcome", async () => {
    const scene = createPipelineScene({
      nodes: { slow: { kind: "sink", in: { in: { buffer: 1 } }, shell: () => new Promise(() => {}) } },
      in: { orders: "slow.in" },
    });
    const stop = new AbortController();
    const pushes = Array.from({ length: 3 }, () =>
      scene.pipeline.push("orders", {}, { signal: stop.signal }),
    );
    await scene.advance(1);
    stop.abort(new Error("enough"));
    const ends = await scene.settle(Promise.allSettled(pushes));
    expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(scene.pipeline.health()).toMatchObject({
      underWay: 2,
      nodes: { slow: { active: 1, waiting: 1 } },
    });
  });

  it("follows from a node's concurrency", async () => {
    let most = 0;
    let active = 0;
    const scene = createPipelineScene({
      nodes: {
        slow: {
          kind: "sink",
          concurrency: 3,
          shell: async () => {
            most = Math.max(most, ++active);
            await scene.sleep(10);
            active--;
          },
        },
      },
      in: { orders: "slow.in" },
    });
    await scene.settle(Promise.all(Array.from({ length: 12 }, () => scene.pipeline.push("orders", {}))));
    expect(most).toBe(3);
  });
});

describe("[batch]", () => {
  it("is processed when it is full, or when the first message has waited for within", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: { bulk: noting(seen, () => scene.world.now(), { batch: { size: 3, withinMs: 1_000 } }) },
      in: { orders: "bulk.in" },
    });
    const pushes = [1, 2, 3, 4].map((number) => scene.pipeline.push("orders", number, { id: `m-${number}` }));
    const outcomes = await scene.settle(Promise.all(pushes));
    expect(outcomes.map(({ verdict }) => verdict)).toEqual(new Array(4).fill("acknowledge"));
    expect(seen.map(({ payload, atMs }) => [payload, atMs])).toEqual([
      [[1, 2, 3], 0],
      [[4], 1_000],
    ]);
    expect(seen[0]?.context.parents).toEqual(["m-1", "m-2", "m-3"]);
  });

  it("gives its output all parents, and every parent its outcome", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: {
        bulk: { batch: { size: 2, withinMs: 1_000 }, out: ["out"] },
        note: noting(seen, () => 0, {
          shell: ((_, context) => {
            seen.push({ payload: 0, atMs: 0, context });
            throw new Error("no");
          }) satisfies Shell<unknown>,
        }),
      },
      edges: ["bulk.out > note.in"],
      in: { orders: "bulk.in" },
    });
    const pushes = ["a", "b"].map((id) => scene.pipeline.push("orders", {}, { id }));
    expect(await scene.settle(Promise.all(pushes))).toMatchObject([
      { verdict: "later" },
      { verdict: "later" },
    ]);
    expect(seen[0]?.context.parents).toEqual(["a", "b"]);
  });

  it("continues without an invalid message", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: {
        bulk: noting(seen, () => 0, {
          batch: { size: 3, withinMs: 1_000 },
          in: { in: { schema: textField("id") } },
        }),
      },
      in: { orders: "bulk.in" },
    });
    const pushes = ["a", 7, "c"].map((id) => scene.pipeline.push("orders", { id }));
    const verdicts = (await scene.settle(Promise.all(pushes))).map(({ verdict }) => verdict);
    expect(verdicts).toEqual(["acknowledge", "reject", "acknowledge"]);
    expect(seen[0]?.payload).toEqual([{ id: "a" }, { id: "c" }]);
  });
});

describe("[join]", () => {
  const joining = (seen: Seen[], join: Partial<NonNullable<NodeSketch["join"]>> = {}) =>
    createPipelineScene(
      {
        nodes: {
          match: noting(seen, () => 0, {
            kind: "transform",
            in: ["order", "payment"],
            out: ["out", "dead"],
            join: { by: "id", withinMs: 1_000, maxPending: 100, ...join },
            shell: ((payload, context) => {
              seen.push({ payload, atMs: 0, context });
              return context.emit("out", payload);
            }) satisfies Shell<unknown>,
          }),
        },
        in: { orders: "match.order", payments: "match.payment" },
        out: { dead: "match.dead" },
      },
      { on: { dead: (payload) => seen.push({ payload: ["dead", payload], atMs: 0, context: {} as never }) } },
    );

  it("joins messages with equal values, in any order", async () => {
    const seen: Seen[] = [];
    const scene = joining(seen);
    const pushes = [
      scene.pipeline.push("orders", { id: 1 }, { id: "o1" }),
      scene.pipeline.push("payments", { id: "1" }, { id: "p-text" }),
      scene.pipeline.push("payments", { id: 1, paid: true }, { id: "p1" }),
      scene.pipeline.push("orders", { id: "1" }, { id: "o-text" }),
    ];
    await scene.settle(Promise.all(pushes));
    expect(seen.map(({ payload, context }) => [payload, context.parents])).toEqual([
      [{ order: { id: 1 }, payment: { id: 1, paid: true } }, ["o1", "p1"]],
      [{ payment: { id: "1" }, order: { id: "1" } }, ["p-text", "o-text"]],
    ]);
  });

  it("sends a message without a match unchanged to the dead-letter port", async () => {
    const seen: Seen[] = [];
    const scene = joining(seen, { deadLetter: "dead" });
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: 1 }));
    expect(outcome.verdict).toBe("acknowledge");
    expect(seen.map(({ payload }) => payload)).toEqual([["dead", { id: 1 }]]);
    expect(scene.world.now()).toBeGreaterThanOrEqual(1_000);
  });

  it("fails a message without a match if there is no such port, with the verdict later", async () => {
    const scene = joining([]);
    expect(await scene.settle(scene.pipeline.push("orders", { id: 1 }))).toMatchObject({
      verdict: "later",
      failures: [{ reason: "unmatched" }],
    });
  });

  it("keeps at most max_pending waiting, and gives up the oldest first", async () => {
    const seen: Seen[] = [];
    const scene = joining(seen, { deadLetter: "dead", maxPending: 2 });
    const pushes = [1, 2, 3].map((id) => scene.pipeline.push("orders", { id }));
    await scene.settle(pushes[0] as Promise<unknown>);
    expect(scene.world.now()).toBeLessThan(1_000);
    expect(seen.map(({ payload }) => payload)).toEqual([["dead", { id: 1 }]]);
    await scene.settle(Promise.all(pushes));
  });

  it("rejects a message without the field", async () => {
    const scene = joining([]);
    expect(await scene.settle(scene.pipeline.push("orders", {}))).toMatchObject({
      verdict: "reject",
      failures: [{ phase: "validate", reason: "key-missing" }],
    });
  });
});

describe("time", () => {
  it("[rate] starts at most limit messages within any span", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: {
        call: noting(seen, () => scene.world.now(), { rate: { limit: 2, perMs: 1_000 }, concurrency: 8 }),
      },
      in: { orders: "call.in" },
    });
    await scene.settle(Promise.all(Array.from({ length: 5 }, () => scene.pipeline.push("orders", {}))));
    expect(seen.map(({ atMs }) => atMs)).toEqual([0, 0, 1_000, 1_000, 2_000]);
  });

  it("[rate] is not spent on duplicates", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: { call: noting(seen, () => scene.world.now(), { key: "id", rate: { limit: 1, perMs: 1_000 } }) },
      in: { orders: "call.in" },
    });
    for (const id of [1, 1, 1, 2]) await scene.settle(scene.pipeline.push("orders", { id }));
    expect(seen.map(({ atMs }) => atMs)).toEqual([0, 1_000]);
  });

  it("[rate] holds while the network stops too", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: { call: noting(seen, () => scene.world.now(), { rate: { limit: 1, perMs: 1_000 } }) },
      in: { orders: "call.in" },
    });
    const pushes = [1, 2].map((number) => scene.pipeline.push("orders", number));
    await scene.advance(10);
    await scene.settle(Promise.all([...pushes, scene.pipeline.close()]));
    expect(seen.map(({ atMs }) => atMs)).toEqual([0, 1_000]);
  });

  it("[delay] delays each message, independently of others", async () => {
    const seen: Seen[] = [];
    const scene = createPipelineScene({
      nodes: { call: noting(seen, () => scene.world.now(), { delayMs: 5_000 }) },
      in: { orders: "call.in" },
    });
    const first = scene.pipeline.push("orders", 1);
    await scene.advance(100);
    const second = scene.pipeline.push("orders", 2);
    await scene.settle(Promise.all([first, second]));
    expect(seen.map(({ payload, atMs }) => [payload, atMs])).toEqual([
      [1, 5_000],
      [2, 5_100],
    ]);
  });
});

describe("two ways to one node", () => {
  it("with one key cause one run: the second waits for the first, and is a duplicate", async () => {
    let runs = 0;
    const scene = createPipelineScene({
      nodes: {
        take: { key: "id", out: ["out"] },
        left: { out: ["out"] },
        right: { out: ["out"] },
        ship: {
          kind: "sink",
          key: "id",
          concurrency: 2,
          shell: async () => {
            runs++;
            await scene.sleep(100);
          },
        },
      },
      edges: ["take.out > left.in", "take.out > right.in", "left.out > ship.in", "right.out > ship.in"],
      in: { orders: "take.in" },
    });
    const outcome = await scene.settle(scene.pipeline.push("orders", { id: 1 }));
    expect(outcome.verdict).toBe("acknowledge");
    expect(runs).toBe(1);
    expect(scene.reported("duplicate")).toEqual(["ship duplicate"]);
  });
});
