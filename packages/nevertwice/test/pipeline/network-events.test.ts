/** Tests the events and the description of a network. */
import { expect, test, vi } from "vitest";
import { guardFromEnv } from "../../src/env/index.ts";
import { definePipeline } from "../../src/pipeline/index.ts";
import type { PipelineEvent } from "../../src/pipeline/pipeline-event.ts";
import { createManifestScene, DAY_MS, HOUR_MS, nodeOf, type Order, shopOf } from "./manifest-scene.ts";

const ORDER = { id: "o-1" };

test("Bloccs: duplicate event/metric distinct from filter: each has a kind of its own, so both can be counted", async () => {
  const { push, events } = createManifestScene(
    shopOf((order: Order & { readonly isTest?: boolean }, { drop }) =>
      order.isTest ? drop("a test") : undefined,
    ),
  );
  await push(ORDER);
  await push(ORDER);
  await push({ id: "o-2", isTest: true });
  const counts: Record<string, number> = {};
  for (const { kind } of events) counts[kind] = (counts[kind] ?? 0) + 1;
  expect(counts).toMatchObject({ duplicate: 1, dropped: 1, completed: 2 });
  expect(events.find(({ kind }) => kind === "dropped")).toMatchObject({ reason: "a test" });
  // What was filtered is done, too.
  expect(await push({ id: "o-2" })).toMatchObject({ isDuplicate: true });
});

test("Bloccs: structured logs: an event is plain data, a line of JSON, and never has the key", async () => {
  const { push, events } = createManifestScene(shopOf(() => undefined));
  await push({ id: "secret-key" }, { id: "m-1", trace: "t-1" });
  const lines = events.map((event) => JSON.stringify(event));
  expect(lines.map((line) => JSON.parse(line))).toEqual(events);
  expect(events[1]).toEqual({
    ...{ kind: "started", network: "shop", node: "charge", id: "m-1", parents: [], trace: "t-1" },
    keyHash: expect.any(String),
  });
  expect(lines.join()).not.toContain("secret-key");
});

test("Bloccs: lineage / trace ids: id, parents and trace go through every node, and a retry keeps them", async () => {
  const seen: { readonly node: string; readonly id: string; readonly parents: readonly string[] }[] = [];
  const traces = new Set<string>();
  const split = { kind: "router", ports: { in: { in: {} }, out: { line: {} } } } as const;
  const { push, events } = createManifestScene({
    network: { id: "shop", version: "1.0.0" },
    nodes: {
      split: nodeOf("split", (_, { emit }) => [emit("line", 1), emit("line", 2)], split),
      pack: nodeOf(
        "pack",
        (_, { id, parents, trace, attempt }) => {
          seen.push({ node: "pack", id, parents });
          traces.add(trace);
          if (attempt === 0) throw new Error("no answer");
          return undefined;
        },
        { contract: { retry: { max: 1 } } },
      ),
    },
    edges: [{ from: "split.line", to: "pack.in" }],
    expose: { in: { orders: "split.in" } },
  });
  await push({}, { id: "m-1", trace: "t-1" });
  expect(traces).toEqual(new Set(["t-1"]));
  expect(seen.map(({ parents }) => parents)).toEqual(new Array(4).fill(["m-1"]));
  // Two messages, each tried twice under its own name.
  expect(new Set(seen.map(({ id }) => id)).size).toBe(2);
  expect(events.every((event) => "trace" in event && event.trace === "t-1")).toBe(true);
});

test("Bloccs: redacted payload capture: only where a node asks for it, without its secrets, and no longer than it says", async () => {
  const capture = { max_bytes: 60, redact: ["card"] };
  const { push, events } = createManifestScene(shopOf(() => undefined, {}, { capture }));
  const captured = async (payload: object) => {
    await push(payload);
    return events.findLast((event) => event.kind === "started")?.captured;
  };
  expect(await captured({ id: "o-1", pay: { card: "4242", total: 3 } })).toEqual({
    text: '{"id":"o-1","pay":{"card":"[redacted]","total":3}}',
    isCut: false,
  });
  const long = await captured({ id: "o-2", note: "x".repeat(1_000), card: "4242" });
  expect(long).toMatchObject({ isCut: true, text: expect.not.stringContaining("4242") });
  expect(long?.text).toHaveLength(60);
  const quiet = createManifestScene(shopOf(() => undefined));
  await quiet.push({ id: "o-3" });
  expect(quiet.events.some((event) => "captured" in event)).toBe(false);
});

test("Bloccs: introspection of policy: a network says what each node promises", () => {
  const retry = { strategy: "exponential", max: 3, base: "100ms", on: ["timeout"] } as const;
  const idempotency = { key: ["tenant", "id"], retention: "1h", on_lapsed: "hold" } as const;
  const { describe } = definePipeline(
    shopOf(
      () => undefined,
      { timeout: "5s", retry, idempotency },
      { effects: { http: { allow: ["bank.example"] } } },
    ),
  );
  const [charge] = describe().nodes;
  expect(charge).toMatchObject({
    ...{ name: "charge", kind: "sink", effects: { http: { allow: ["bank.example"] } } },
    contract: {
      timeoutMs: 5_000,
      retry: { strategy: "exponential", max: 3, baseMs: 100, on: ["timeout"] },
      idempotency: { fields: ["tenant", "id"], retentionMs: HOUR_MS, onLapsed: "hold" },
    },
  });
  expect(JSON.parse(JSON.stringify(describe()))).toEqual(describe());
});

test("Bloccs: mass-concurrency test: a thousand deliveries of ten messages to ten pipelines are ten runs", async () => {
  const ran: string[] = [];
  const scene = createManifestScene(shopOf(async (order: Order) => void ran.push(order.id)));
  const processes = Array.from({ length: 10 }, () => scene.again());
  const orders = Array.from({ length: 100 }, (_, index) => ({ id: `o-${index % 10}` }));
  const pushAll = () =>
    scene.settle(Promise.all(processes.flatMap((each) => orders.map((order) => each.push("orders", order)))));
  const outcomes = await pushAll();
  expect(outcomes.filter(({ verdict }) => verdict === "reject")).toEqual([]);
  expect(ran.toSorted()).toEqual(Array.from({ length: 10 }, (_, index) => `o-${index}`));
  // Deliveries that were sent back find all of it done.
  expect((await pushAll()).every(({ isDuplicate }) => isDuplicate)).toBe(true);
  expect(ran).toHaveLength(10);
});

test("Bloccs: environment variables: an operator says which store a pipeline is on, and how long it waits", async () => {
  const env = {
    NEVERTWICE_STORE_URL: "memory:",
    NEVERTWICE_LEASE: "5s",
    NEVERTWICE_RETENTION: "1d",
    NEVERTWICE_NAMESPACE: "shop",
  };
  const guard = await guardFromEnv(env);
  expect(guard.policy).toMatchObject({ leaseMs: 5_000, retentionMs: DAY_MS });
  const told: PipelineEvent[] = [];
  const charge = vi.fn(() => undefined);
  const pipeline = await definePipeline(shopOf(charge)).start(guard, {
    onEvent: (event) => told.push(event),
  });
  for (const isDuplicate of [false, true])
    expect(await pipeline.push("orders", ORDER)).toMatchObject({ isDuplicate });
  expect(charge).toHaveBeenCalledTimes(1);
  await pipeline.close();
  await guard.close();
  await expect(guardFromEnv({ NEVERTWICE_RETENSION: "1h" })).rejects.toMatchObject({
    code: "options-invalid",
  });
});
