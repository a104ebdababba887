/** Tests networks: what a manifest declares for each node, and how messages flow. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { definePipeline, loadPipeline, manifestProblems } from "../../src/pipeline/index.ts";
import type { NetworkManifest } from "../../src/pipeline/manifest/manifest.ts";
import type { Pulled, ShellContext } from "../../src/pipeline/model.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { scratchFolder } from "../scratch-folder.ts";
import {
  chargeOf,
  createManifestScene,
  KEYED,
  nodeOf,
  type Order,
  SECOND_MS,
  shopOf,
} from "./manifest-scene.ts";

const ORDER = { id: "o-1" };

test("Bloccs: declared per node in a manifest: `idempotency` in the contract of one, and not of another", async () => {
  const folder = await scratchFolder();
  const node = (id: string, idempotency: string) => `
[node]
id = "${id}"
version = "1.0.0"
kind = "sink"
[ports.in]
in = {}
[contract]
pure_core = "./nodes.mjs#core"
effect_shell = "./nodes.mjs#${id}"
${idempotency}`;
  const files = {
    "nodes.mjs": `export const ran = [];
export const core = (order) => order;
export const charge = () => void ran.push("charge");
export const count = () => void ran.push("count");`,
    "charge.node.toml": node("charge", 'idempotency = { key = "request_id" }'),
    "count.node.toml": node("count", ""),
    "shop.toml": `
[network]
id = "shop"
version = "1.0.0"
[nodes]
charge = { use = "./charge.node.toml" }
count = { use = "./count.node.toml" }
[expose]
in = { orders = "charge.in", visits = "count.in" }`,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const guard = createGuard({ store: memoryStore() });
  const pipeline = await (await loadPipeline(join(folder, "shop.toml"))).start(guard);
  for (const _ of [1, 2])
    for (const port of ["orders", "visits"])
      expect((await pipeline.push(port, { request_id: "r-1" })).verdict).toBe("acknowledge");
  const { ran } = await import(/* @vite-ignore */ join(folder, "nodes.mjs"));
  expect(ran).toEqual(["charge", "count", "count"]);
  await pipeline.close();
  await guard.close();
});

test("Bloccs: event/message dedup consumer: a source brings messages twice; each is done once and acknowledged twice", async () => {
  const acknowledged: string[] = [];
  function* bring(): Generator<Pulled> {
    for (const id of ["e-1", "e-1", "e-2", "e-1"])
      yield { payload: { id }, id, settled: ({ verdict }) => acknowledged.push(`${id} ${verdict}`) };
  }
  const handle = vi.fn(() => undefined);
  const source = {
    node: { id: "events", version: "1.0.0", kind: "source" },
    ports: { out: { events: {} } },
    contract: { effect_shell: bring },
  } as const;
  const scene = createManifestScene({
    network: { id: "shop", version: "1.0.0" },
    nodes: { events: { use: source }, charge: nodeOf("charge", handle, KEYED) },
    edges: [{ from: "events.events", to: "charge.in" }],
  });
  await scene.settle(scene.pipeline.idle());
  expect(handle).toHaveBeenCalledTimes(2);
  expect(acknowledged.toSorted()).toEqual(["e-1", "e-1", "e-1", "e-2"].map((id) => `${id} acknowledge`));
});

test("Bloccs: retry with backoff strategies: constant, linear and exponential, up to a cap", async () => {
  const waits = {
    constant: [100, 100, 100, 100],
    linear: [100, 200, 300, 350],
    exponential: [100, 200, 350, 350],
  } as const;
  for (const strategy of ["constant", "linear", "exponential"] as const) {
    const { push, events } = createManifestScene(
      shopOf(() => Promise.reject(new Error("no answer")), {
        retry: { strategy, max: 4, base: "100ms", cap: "350ms", jitter: 0 },
      }),
    );
    expect((await push(ORDER)).failures).toMatchObject([{ attempt: 4, reason: "exception" }]);
    const told = events.flatMap((event) => (event.kind === "retrying" ? [event.afterMs] : []));
    expect(told).toEqual(waits[strategy]);
  }
});

test("Bloccs: permanent failures never retried: schema, key, effect that is not declared, port that is not there", async () => {
  const retry = { max: 3 };
  const network = (manifest: NetworkManifest): NetworkManifest => ({
    ...manifest,
    schemas: { "Order@1": (order: Order) => typeof order.id === "string" },
  });
  const strict = { ports: { in: { in: { schema: "Order@1" } } } };
  const cases = [
    [network(shopOf(() => undefined, { retry }, strict)), { id: 1 }, "schema-mismatch"],
    [shopOf(() => undefined, { retry }), {}, "key-missing"],
    [shopOf((_, { effects }) => void effects.random, { retry }), ORDER, "effect-denied"],
    [shopOf((_, { emit }) => emit("nowhere", 1), { retry }), ORDER, "wrong-emit"],
  ] as const;
  for (const [manifest, payload, reason] of cases) {
    const { push, told } = createManifestScene(manifest);
    expect(await push(payload)).toMatchObject({ verdict: "reject", failures: [{ attempt: 0, reason }] });
    expect(told("retrying")).toEqual([]);
  }
});

test("Bloccs: dedup once per operation, not per attempt: three tries are one claim and one mark", async () => {
  const charge = vi.fn((_: Order, { attempt }: ShellContext) => {
    if (attempt < 2) throw new Error("no answer");
    return undefined;
  });
  const { push, guardEvents } = createManifestScene(shopOf(charge, { retry: { max: 3 } }));
  expect((await push(ORDER)).verdict).toBe("acknowledge");
  expect(charge).toHaveBeenCalledTimes(3);
  expect(guardEvents.map(({ kind }) => kind)).toEqual(["claimed", "completed"]);
});

test("Bloccs: timeout per attempt / per sequence: a node's for each try, the guard's longest run for all of them", async () => {
  const signals: AbortSignal[] = [];
  const hang = (_: Order, { signal }: ShellContext) => {
    signals.push(signal);
    return new Promise<undefined>(() => {});
  };
  const perTry = createManifestScene(shopOf(hang, { timeout: "1s", retry: { max: 2, on: ["timeout"] } }));
  expect(await perTry.push(ORDER)).toMatchObject({ failures: [{ attempt: 2, reason: "timeout" }] });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);

  const contract = {
    timeout: "1s",
    retry: { max: 100, base: "1s", jitter: 0, strategy: "constant" },
  } as const;
  const all = createManifestScene(shopOf(hang, contract), {}, { maxRunMs: 5 * SECOND_MS });
  const { failures } = await all.push(ORDER);
  expect(failures[0]?.attempt).toBeLessThan(5);
  expect(all.guardEvents).toContainEqual(
    expect.objectContaining({ kind: "lease-lost", reason: "ran-too-long" }),
  );
});

const PAIR = {
  kind: "transform",
  ports: { in: { orders: {}, payments: {} }, out: { paid: {}, unpaid: {} } },
  join: { by: "id", within: "1m", dead_letter: "unpaid" },
} as const;

test("Bloccs: dead-letter capture and keyed replay: what found no match is kept, and comes in again under its key, once", async () => {
  const dead: unknown[] = [];
  const booked = vi.fn(() => undefined);
  const scene = createManifestScene(
    {
      network: { id: "shop", version: "1.0.0" },
      nodes: {
        pair: nodeOf("pair", (both, { emit }) => emit("paid", both), PAIR),
        late: nodeOf("late", booked, KEYED),
      },
      expose: {
        in: { orders: "pair.orders", payments: "pair.payments", late: "late.in" },
        out: { paid: "pair.paid", unpaid: "pair.unpaid" },
      },
    },
    { on: { unpaid: (order) => dead.push(order) } },
  );
  const lonely = await scene.push(ORDER);
  expect([lonely.verdict, dead]).toEqual(["acknowledge", [ORDER]]);
  for (const isDuplicate of [false, true])
    for (const letter of dead)
      expect(await scene.settle(scene.pipeline.push("late", letter))).toMatchObject({ isDuplicate });
  expect(booked).toHaveBeenCalledTimes(1);
});

test("Bloccs: incompatible combinations rejected: at load, all of them, each with its fix", () => {
  const problemsOf = (manifest: NetworkManifest) => {
    try {
      definePipeline(manifest);
    } catch (error) {
      return manifestProblems(error).map(({ at, fix }) => [at, fix.length > 0]);
    }
    return [];
  };
  const contract = { timeout: "5s", retry: { max: 3 }, idempotency: { key: "id" } };
  const batch = { size: 10, within: "1s" };
  const bulk = shopOf(() => undefined, contract, { batch });
  expect(problemsOf(bulk).toSorted()).toEqual(
    ["contract.idempotency", "contract.retry", "contract.timeout"].map((at) => [at, true]),
  );
  const joined = shopOf(() => undefined, {}, { ...PAIR, kind: "router", batch });
  expect(problemsOf(joined).length).toBeGreaterThanOrEqual(2);
});

test("Bloccs: batch windows, join, throttle, delay, filter, split: each as its manifest says", async () => {
  const seen: (readonly [node: string, payload: unknown, atMs: number])[] = [];
  const note = (node: string) => (payload: unknown) =>
    void seen.push([node, payload, Math.floor(scene.world.now() / SECOND_MS)]);
  const pair = { ...PAIR, ports: { ...PAIR.ports, out: { paid: {} } }, join: { by: "id", within: "1m" } };
  const transform = { kind: "transform", ports: { in: { in: {} }, out: { out: {} } } } as const;
  const scene = createManifestScene({
    network: { id: "shop", version: "1.0.0" },
    nodes: {
      bulk: nodeOf("bulk", note("batch"), { batch: { size: 2, within: "3s" } }),
      pair: nodeOf("pair", (both, { emit }) => emit("paid", both), pair),
      paid: nodeOf("paid", note("join")),
      slow: nodeOf("slow", note("rate"), { rate: { limit: 1, per: "2s" } }),
      wait: nodeOf("wait", note("delay"), { delay: { by: "5s" } }),
      pick: nodeOf(
        "pick",
        (lines: readonly number[], { emit, drop }) =>
          lines.length === 0 ? drop("nothing in it") : lines.map((line) => emit("out", line)),
        transform,
      ),
      line: nodeOf("line", note("split")),
    },
    edges: [
      { from: "pair.paid", to: "paid.in" },
      { from: "pick.out", to: "line.in" },
    ],
    expose: {
      in: {
        ...{ bulk: "bulk.in", orders: "pair.orders", payments: "pair.payments" },
        ...{ slow: "slow.in", wait: "wait.in", pick: "pick.in" },
      },
    },
  });
  const order = { id: "o-1", total: 3 };
  const payment = { id: "o-1", card: "visa" };
  const inputs = [
    ...[1, 2, 3].map((number) => ["bulk", number] as const),
    ...([
      ["orders", order],
      ["payments", payment],
    ] as const),
    ...[1, 2, 3].map((number) => ["slow", number] as const),
    ["wait", 1] as const,
    ...[[], [7, 8]].map((lines) => ["pick", lines] as const),
  ];
  const pushes = inputs.map(([port, payload]) => scene.pipeline.push(port, payload));
  for (const { verdict } of await scene.settle(Promise.all(pushes))) expect(verdict).toBe("acknowledge");
  const of = (name: string) => seen.filter(([node]) => node === name).map(([, ...rest]) => rest);
  expect(of("batch")).toEqual([
    [[1, 2], 0],
    [[3], 3],
  ]);
  expect(of("join")).toEqual([[{ orders: order, payments: payment }, 0]]);
  expect(of("rate")).toEqual([
    [1, 0],
    [2, 2],
    [3, 4],
  ]);
  expect(of("delay")).toEqual([[1, 5]]);
  expect(of("split")).toEqual([
    [7, 0],
    [8, 0],
  ]);
  expect(scene.told("dropped")).toEqual(["pick dropped"]);
});

test("Bloccs: back-pressure: who pushes more than a node takes waits, and nothing is lost", async () => {
  let ran = 0;
  const slow = () => scene.sleep(100).then(() => void ran++);
  const scene = createManifestScene(shopOf(slow, {}, { ports: { in: { in: { buffer: 2 } } } }));
  const pushes = Array.from({ length: 10 }, (_, id) => scene.pipeline.push("orders", { id }));
  await scene.advance(50);
  // One is worked on, two are in the buffer, and seven wait for a place.
  expect(scene.told("back-pressure")).toHaveLength(7);
  expect(scene.pipeline.health().nodes.charge).toMatchObject({ active: 1, waiting: 9 });
  const outcomes = await scene.settle(Promise.all(pushes));
  expect(outcomes.every(({ verdict }) => verdict === "acknowledge")).toBe(true);
  expect(ran).toBe(10);
});

test("Bloccs: capability-scoped effects: a node reaches what it declares, and is denied all else", async () => {
  const called: string[] = [];
  const fetch = async (input: string | URL | Request) => {
    called.push(new Request(input).url);
    return new Response("paid");
  };
  const options = { fetch, databases: { ledger: "the ledger", users: "the users" } };
  const effects = { http: { allow: ["bank.example"] }, db: { allow: ["ledger"] } };
  const attempts: readonly (readonly [use: (context: ShellContext) => unknown, isAllowed: boolean])[] = [
    [(context) => context.effects.http("https://bank.example/charge"), true],
    [(context) => context.effects.http("https://evil.example/steal"), false],
    [(context) => context.effects.db("ledger"), true],
    [(context) => context.effects.db("users"), false],
    [(context) => context.effects.time.now(), false],
    [(context) => context.effects.random.uuid(), false],
  ];
  for (const [use, isAllowed] of attempts) {
    const { push } = createManifestScene(
      shopOf(async (_, context) => void (await use(context)), {}, { effects }),
      options,
    );
    const { verdict, failures } = await push(ORDER);
    expect(verdict).toBe(isAllowed ? "acknowledge" : "reject");
    expect(failures.map(({ reason }) => reason)).toEqual(isAllowed ? [] : ["effect-denied"]);
  }
  expect(called).toEqual(["https://bank.example/charge"]);
});

test("Bloccs: request/response over the pipeline: a caller gets the reply, and a duplicate gets the one that was kept", async () => {
  const charge = vi.fn((order: Order, { reply }: ShellContext) => reply(`receipt of ${order.id}`));
  const scene = createManifestScene(shopOf(charge, {}, { reply: true }));
  const ask = (payload: unknown) => scene.settle(scene.pipeline.request("orders", payload));
  for (const _ of [1, 2]) expect(await ask(ORDER)).toEqual({ status: "replied", value: "receipt of o-1" });
  expect(charge).toHaveBeenCalledTimes(1);
  expect(await ask({})).toMatchObject({
    status: "failed",
    outcome: { failures: [{ node: "charge", phase: "validate", reason: "key-missing" }] },
  });
  expect(await scene.guard.read(chargeOf("o-1"))).toMatchObject({ state: "completed" });
});
