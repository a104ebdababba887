/** Tests a guard at module level of a Worker, with its records in Durable Objects and in D1. Needs the build. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RUNTIMES } from "./cases.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

interface Ran {
  readonly status: string;
  readonly value?: string;
  readonly error?: { readonly code: string };
}

const SETTINGS = RUNTIMES.flatMap((runtime) => ["objects", "d1"].map((store) => ({ ...runtime, store })));

describe.each(SETTINGS)("on $store, in $title", ({ store, flags }) => {
  let runtime: Runtime;
  beforeAll(async () => {
    runtime = await startRuntime("guard.ts", flags, {
      durableObjects: {
        NEVERTWICE: { className: "NevertwiceObject", useSQLite: true },
        COUNTER: { className: "Counter", useSQLite: true },
      },
      d1Databases: ["DB"],
    });
    await runtime.ask("/migrate");
  });
  afterAll(() => runtime.stop());

  const run = (parameters: Readonly<Record<string, string>>) =>
    runtime.ask<Ran>("/", { store, ...parameters });
  const runs = (key: string) => runtime.ask<number>("/runs", { store, key });

  test("the work of a first call runs, and a later request replays its outcome", async () => {
    const first = await run({ key: "first" });
    expect(first).toMatchObject({ status: "ran" });
    expect(await run({ key: "first" })).toEqual({ status: "replayed", value: first.value });
    expect(await runs("first")).toBe(1);
  });

  test("another amount under the same key is a conflict", async () => {
    await run({ key: "conflict" });
    expect(await run({ key: "conflict", amount: "9" })).toMatchObject({ status: "conflict" });
    expect(await runs("conflict")).toBe(1);
  });

  test("of overlapping requests one runs, and the others get its outcome", async () => {
    const all = Array.from({ length: 10 }, () => run({ key: "overlap", workMs: "500" }));
    // What duplicates share with the request of another key would end with it.
    const others = Array.from({ length: 10 }, (_, n) => run({ key: `other-${n}`, workMs: String(60 * n) }));
    const [answers, besides] = await Promise.all([Promise.all(all), Promise.all(others)]);
    expect(besides.filter(({ status }) => status !== "ran")).toEqual([]);
    expect(answers.filter(({ status }) => status === "ran")).toHaveLength(1);
    expect(answers.filter(({ status }) => status === "replayed")).toHaveLength(9);
    expect(new Set(answers.map(({ value }) => value)).size).toBe(1);
    expect(await runs("overlap")).toBe(1);
  });

  test("work goes on and is completed after the response, with waitUntil", async () => {
    expect(await runtime.ask("/later", { store, key: "later", workMs: "300" })).toBe("accepted");
    expect(await run({ key: "later" })).toMatchObject({ status: "replayed" });
    expect(await runs("later")).toBe(1);
  });
});
