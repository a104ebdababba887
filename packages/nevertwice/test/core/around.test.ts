/**
 * Tests an observer whose `around` wraps calls and whose `origin` says where work ran. The guard calls it and never
 * trusts it.
 */
import { describe, expect, test } from "vitest";
import type { GuardEvent, Observer } from "../../src/core/observer.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "k" };

function observer(parts: Pick<Observer, "around" | "origin">, events: GuardEvent[] = []): Observer {
  return Object.assign((event: GuardEvent) => void events.push(event), parts);
}

describe("around", () => {
  test("receives the subject and the status of each call, from before its first event to its end", async () => {
    const seen: unknown[] = [];
    const { another } = createScene();
    const guard = another({
      observer: Object.assign((event: GuardEvent) => void seen.push(event.kind), {
        async around<T extends { status: string }>(
          { operation, keyHash }: { operation: string; keyHash: string },
          call: () => Promise<T>,
        ) {
          seen.push(`${operation} ${keyHash.length}`);
          seen.push((await call()).status);
        },
      }),
    });
    await guard.run(request, () => 1);
    await guard.run(request, () => 2);
    expect(seen).toEqual(["charge 16", "claimed", "completed", "ran", "charge 16", "replayed", "replayed"]);
  });

  test.each<[what: string, around: NonNullable<Observer["around"]>]>([
    ["throws before the call", failed],
    ["rejects before the call", async () => failed()],
    ["rejects after the call", (_, call) => call().then(failed)],
    ["throws after it began the call", (_, call) => failed(call())],
    ["never makes the call", async () => {}],
    ["makes the call twice", (_, call) => Promise.all([call(), call()])],
    ["makes the call late", (_, call) => Promise.resolve().then(call)],
    ["returns something else", (_, call) => call().then(() => ({ status: "pending" }))],
  ])("an observer that %s changes neither the answer nor the number of runs", async (_, around) => {
    const { another } = createScene();
    const guard = another({ observer: observer({ around }) });
    let runs = 0;
    expect(await guard.tryRun(request, () => ++runs)).toEqual({ status: "ran", value: 1, recorded: true });
    const boom = new Error("boom");
    await expect(guard.run({ ...request, key: "other" }, () => Promise.reject(boom))).rejects.toBe(boom);
    await new Promise((resolve) => setImmediate(resolve));
    expect(runs).toBe(1);
  });

  test("several observers wrap one call, the first outermost, and each receives the events", async () => {
    const order: string[] = [];
    const named = (name: string) =>
      Object.assign((event: GuardEvent) => void order.push(`${name} ${event.kind}`), {
        async around<T>(_: unknown, call: () => Promise<T>) {
          order.push(`${name} in`);
          await call();
          order.push(`${name} out`);
        },
      });
    const { another } = createScene();
    await another({ observer: [named("a"), named("b")] }).run(request, () => 1);
    expect(order.slice(0, 6)).toEqual([
      "a in",
      "b in",
      "a claimed",
      "b claimed",
      "a completed",
      "b completed",
    ]);
    expect(order.slice(6).sort()).toEqual(["a out", "b out"]);
  });

  test("refuses a list with anything other than functions", () => {
    const { another } = createScene();
    expect(() => another({ observer: ["log"] as never })).toThrow(/observer is "log"/);
  });
});

describe("the origin", () => {
  test("is stored with the outcome and reported with its replays, by any guard", async () => {
    const { another } = createScene();
    const told: GuardEvent[] = [];
    const first = another({ observer: observer({ origin: () => "trace-1" }) });
    const second = another({ observer: (event) => void told.push(event) });
    await first.run(request, () => ({ receipt: 1 }));
    expect(await second.run(request, () => "again")).toEqual({ receipt: 1 });
    expect(told).toEqual([expect.objectContaining({ kind: "replayed", origin: "trace-1" })]);
    expect((await second.read(request))?.outcome).toEqual({
      kind: "value",
      value: { receipt: 1 },
      origin: "trace-1",
    });
  });

  test.each<[what: string, value: unknown]>([
    ["a list that ends in a long text", [1, "x".repeat(500)]],
    ["a value that JSON cannot represent", new Map([[1, undefined]])],
    ["nothing", undefined],
  ])("is stored next to %s, which is replayed unchanged", async (_, value) => {
    const { another } = createScene();
    const guard = another({ observer: observer({ origin: () => 'quo"te\\' }) });
    await guard.run(request, () => value);
    expect(await guard.run(request, () => "again")).toEqual(value);
    expect((await guard.read(request))?.outcome?.origin).toBe('quo"te\\');
  });

  test("of a remembered error is reported with its replay and to a refused duplicate", async () => {
    const { another } = createScene({ onFailure: "remember" });
    const told: GuardEvent[] = [];
    const guard = another({ observer: observer({ origin: () => "trace-2" }, told) });
    const work = () => Promise.reject(new Error("declined"));
    await expect(guard.run(request, work)).rejects.toThrow("declined");
    await expect(guard.run(request, work)).rejects.toThrow("declined");
    await expect(guard.run({ ...request, onCompleted: "reject" }, work)).rejects.toThrow("already-done");
    expect(told.filter(({ kind }) => kind === "replayed")).toEqual([
      expect.objectContaining({ refused: false, origin: "trace-2" }),
      expect.objectContaining({ refused: true, origin: "trace-2" }),
    ]);
  });

  test.each<[what: string, origin: () => string | undefined]>([
    ["throws", () => failed()],
    ["is not a string", () => 5 as never],
    ["is empty", () => ""],
    ["is too long", () => "x".repeat(129)],
    ["contains a line break", () => "a\nb"],
    ["is undefined", () => undefined],
  ])("that %s is left out, and nothing else changes", async (_, origin) => {
    const { another } = createScene();
    const guard = another({ observer: observer({ origin }) });
    await guard.run(request, () => 1);
    expect(await guard.run(request, () => 2)).toBe(1);
    expect((await guard.read(request))?.outcome).toEqual({ kind: "value", value: 1 });
  });
});

function failed(_begun?: unknown): never {
  throw new Error("broken observer");
}
