/** Tests consumers with retries, breakers, dead letters, sagas and traces. */
import { ConsecutiveBreaker, circuitBreaker, handleAll } from "cockatiel";
import { expect, onTestFinished, test, vi } from "vitest";
import { consumer } from "../../src/events/index.ts";
import { type DeadLetter, protect, replay } from "../../src/functions/protect.ts";
import { definePipeline, type NodeManifest, type ShellContext } from "../../src/pipeline/index.ts";
import { type RunContext, saga, type UndoContext } from "../../src/saga/index.ts";
import { createScene, failure } from "../functions/guard-scene.ts";

interface Envelope {
  readonly id: string;
  readonly type?: string;
  readonly payload?: unknown;
}

const byId = ({ id }: Envelope) => id;

test("Skill: event/message dedup consumer: each consumer processes an event once, however often it is delivered", async () => {
  const { guard, another } = createScene();
  const work = vi.fn(async ({ id }: Envelope) => id);
  const assets = consumer(guard, { name: "assets", key: byId, work });
  const billing = consumer(another(), { name: "billing", key: byId, work });
  const batch = await assets.handleBatch([{ id: "1" }, { id: "2" }, { id: "1" }]);
  expect(batch.map(({ status }) => status)).toEqual(["done", "done", "done-before"]);
  expect((await billing.handle({ id: "1" })).status).toBe("done");
  expect(work).toHaveBeenCalledTimes(3);
});

test("Skill: retry with backoff strategies: tries within one delivery are one claim, and wait as they are told", async () => {
  const { guard, store } = createScene();
  const waits: Record<string, number[]> = {};
  for (const strategy of ["constant", "linear", "exponential"] as const) {
    const afterMs: number[] = [];
    waits[strategy] = afterMs;
    const work = vi.fn(async () => {
      if (work.mock.calls.length < 5) throw new Error("busy");
      return "done";
    });
    const delivery = await consumer(guard, {
      name: strategy,
      key: byId,
      work,
      retry: { max: 4, strategy, baseMs: 1, capMs: 5, jitter: 0 },
      onEvent: (event) => void (event.kind === "retrying" && afterMs.push(event.afterMs)),
    }).handle({ id: "1" });
    expect(delivery).toMatchObject({ status: "done", tries: 5 });
  }
  expect(waits).toEqual({ constant: [1, 1, 1, 1], linear: [1, 2, 3, 4], exponential: [1, 2, 4, 5] });
  expect([store.calls.claim, store.calls.abandon]).toEqual([3, 0]);
});

test("Skill: permanent failures never retried: neither within a delivery nor by another one", async () => {
  const { guard } = createScene();
  const work = vi.fn().mockRejectedValue(new RangeError("unknown event type: asset.painted"));
  const isPermanent = (error: unknown) => error instanceof RangeError;
  const events = consumer(guard, {
    name: "assets",
    key: byId,
    work,
    isPermanent,
    onFailure: (error) => (isPermanent(error) ? "remember" : "release"),
    retry: { max: 5, baseMs: 1 },
  });
  const answers = [await events.handle({ id: "1" }), await events.handle({ id: "1" })];
  expect(answers).toMatchObject([
    { status: "failed", verdict: "reject", tries: 1 },
    { status: "failed-before", verdict: "reject" },
  ]);
  expect(work).toHaveBeenCalledTimes(1);
});

test("Skill: circuit breaker composition: an open one stops the work of new events, and no duplicate is kept from its answer", async () => {
  const { guard } = createScene();
  const policy = circuitBreaker(handleAll, { halfOpenAfter: 3_600_000, breaker: new ConsecutiveBreaker(1) });
  const call = vi.fn(async (id: string) => {
    if (id === "2") throw new Error("down");
    return `called for ${id}`;
  });
  const once = (id: string) =>
    protect(guard, { operation: "notify", key: "id", context: { id }, policy }, () => call(id));
  await once("1");
  await once("2").catch(() => {});
  await expect(once("3")).rejects.toMatchObject({ isBrokenCircuitError: true });
  expect(await once("1")).toBe("called for 1");
  expect(call.mock.calls).toEqual([["1"], ["2"]]);
});

test("Skill: dead-letter capture and keyed replay: what failed for good is kept with its key, and replayed once", async () => {
  const { guard, another } = createScene();
  const letters: DeadLetter[] = [];
  const options = { operation: "notify", key: "id", context: { id: "1" } } as const;
  const fails = () => Promise.reject(new Error("no such customer"));
  const deadLetters = (letter: DeadLetter) => void letters.push(letter);
  await protect(guard, { ...options, deadLetters }, fails).catch(() => {});
  expect(letters).toMatchObject([{ operation: "notify", key: "1", error: { message: "no such customer" } }]);
  const notify = vi.fn(async () => "notified");
  const stored = JSON.parse(JSON.stringify(letters[0])) as DeadLetter;
  const replays = await Promise.all([guard, another()].map((by) => replay(by, stored, notify)));
  expect(replays.map(({ outcome }) => outcome).sort()).toEqual(["ran", "replayed"]);
  expect(notify).toHaveBeenCalledTimes(1);
});

/** A transform with one way in and one way out, which does what it is given. */
function nodeOf(id: string, shell: (payload: never, context: ShellContext) => unknown): NodeManifest {
  return {
    node: { id, version: "1.0.0", kind: "transform" },
    ports: { in: { in: {} }, out: { out: {} } },
    contract: { pure_core: (payload: unknown) => payload, effect_shell: shell as never },
  };
}

function networkOf(nodes: Readonly<Record<string, NodeManifest>>) {
  const names = Object.keys(nodes);
  return definePipeline({
    network: { id: "assets", version: "1.0.0" },
    nodes: Object.fromEntries(Object.entries(nodes).map(([name, use]) => [name, { use }])),
    edges: names.slice(1).map((name, index) => ({ from: `${names[index]}.out`, to: `${name}.in` })),
    expose: { in: { events: `${names[0]}.in` }, out: { done: `${names.at(-1)}.out` } },
  });
}

test("Skill: capability-scoped effects: a handler reaches what its manifest declares, and nothing else", async () => {
  const { guard } = createScene();
  const shell = (table: string, { effects, emit }: ShellContext) =>
    emit("out", (effects.db(table) as Map<string, string>).get("pump-1"));
  const declared = { ...nodeOf("read", shell), effects: { db: { allow: ["assets"] } } };
  const databases = { assets: new Map([["pump-1", "online"]]), salaries: new Map() };
  const out = vi.fn();
  const start = async (use: NodeManifest) => {
    const pipeline = await networkOf({ read: use }).start(guard, {
      databases,
      on: { done: (payload) => out(payload) },
    });
    onTestFinished(async () => void (await pipeline.close()));
    return pipeline;
  };
  const allowed = await start(declared);
  expect((await allowed.push("events", "assets")).verdict).toBe("acknowledge");
  expect(out.mock.calls).toEqual([["online"]]);
  const denied = { failures: [{ error: failure("not-authorized") }] };
  expect(await allowed.push("events", "salaries")).toMatchObject(denied);
  expect(await (await start(nodeOf("read", shell))).push("events", "assets")).toMatchObject(denied);
  expect(out).toHaveBeenCalledTimes(1);
});

test("Skill: lineage / trace ids: whatever came of an event says which one, and by which way", async () => {
  const { guard } = createScene();
  const seen: Pick<ShellContext, "id" | "parents" | "trace">[] = [];
  const note = (payload: unknown, { id, parents, trace, emit }: ShellContext) => {
    seen.push({ id, parents, trace });
    return emit("out", payload);
  };
  const network = networkOf({ first: nodeOf("first", note), second: nodeOf("second", note) });
  const pipeline = await network.start(guard);
  onTestFinished(async () => void (await pipeline.close()));
  await pipeline.push("events", "pump-1", { id: "event-1", trace: "correlation-1" });
  const [first, second] = seen;
  expect(first).toMatchObject({ id: "event-1", trace: "correlation-1" });
  expect(second?.trace).toBe("correlation-1");
  expect([second?.parents.includes("event-1"), second?.id === "event-1"]).toEqual([true, false]);
});

/** Another system that remembers keys, as payment providers do, and may lose its answer after the effect. */
function createProvider() {
  const effects: string[] = [];
  const known = new Set<string>();
  let lost = 0;
  return {
    effects,
    loseNext: (answers: number) => {
      lost = answers;
    },
    async do(effect: string, key: string) {
      if (!known.has(key)) effects.push(effect);
      known.add(key);
      if (lost-- > 0) throw new Error("the answer was lost");
    },
  };
}

test("Skill: saga compensation, idempotent both ways: steps and their undoing happen once, in reverse, however often the saga is run", async () => {
  const { guard, another } = createScene();
  const provider = createProvider();
  let isOpen = false;
  let refunds = 0;
  const steps = ["reserve", "charge", "ship"].map((name) => ({
    name,
    async run({ deriveKey, notDone }: RunContext) {
      if (name === "ship" && !isOpen) throw notDone(new Error("the warehouse is closed"));
      await provider.do(name, deriveKey());
    },
    async undo({ deriveKey }: UndoContext) {
      if (name === "charge" && refunds++ === 0) provider.loseNext(1);
      await provider.do(`undo ${name}`, deriveKey());
    },
  }));
  const run = (by: typeof guard) =>
    saga(by, { operation: "order", key: "order-1", undoRetry: { max: 0 } }, steps);
  // The refund's answer is lost: what is left to undo is undone by the worker that runs the saga next, and nothing twice.
  const parked = await run(guard);
  expect(parked).toMatchObject({
    status: "parked",
    step: "charge",
    error: { message: "the answer was lost" },
  });
  // What was given up is not shipped after all, though it could be now.
  isOpen = true;
  const { fence } = parked as { readonly fence: number };
  await guard.resolve({ operation: "order", key: "order-1", fence }, { status: "not-done" });
  expect(await run(another())).toMatchObject({ status: "undone", step: "ship" });
  expect(await run(guard)).toMatchObject({ status: "undone", step: "ship" });
  expect(provider.effects).toEqual(["reserve", "charge", "undo charge", "undo reserve"]);
});

test("Skill: structured logs: what becomes of each event is an object, with a hash and never the key", async () => {
  const lines: string[] = [];
  const { guard, events: decisions } = createScene();
  const events = consumer(guard, {
    name: "assets",
    key: byId,
    work: async ({ payload }: Envelope) => payload,
    fingerprint: ({ payload }) => payload,
    onEvent: (event) => lines.push(JSON.stringify(event)),
  });
  for (const payload of ["a", "a", "b"]) await events.handle({ id: "secret@example.com", payload });
  const keyHash = expect.stringMatching(/^[0-9a-f]+$/);
  expect(lines.map((line) => JSON.parse(line))).toEqual(
    ["done", "done-before", "alarm"].map((kind) => ({
      kind,
      consumer: "assets",
      keyHash,
      verdict: "acknowledge",
    })),
  );
  expect(lines.join()).not.toContain("secret");
  expect(JSON.parse(String(lines[0])).keyHash).toBe((decisions[0] as { keyHash?: string }).keyHash);
});
