/** The cases catch broken adapters. The tests in `test/http/` run them on the correct ones. */
import { describe, expect, test } from "vitest";
import { type AdapterCase, adapterCases } from "../../src/testing/adapter-cases.ts";
import { fetchHarness } from "../http/adapters/fetch.ts";
import { REPLAYED_HEADER } from "../http/replayed-header.ts";
import { BROKEN_ADAPTERS, brokenHarness } from "./broken-adapters.ts";

const CASES = adapterCases(fetchHarness);

async function failureOf({ run }: AdapterCase): Promise<unknown> {
  return run().then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe("the list of cases", () => {
  test("has unique names", () => {
    expect(new Set(CASES.map(({ name }) => name)).size).toBe(CASES.length);
  });

  test("skips a case that a framework cannot run, with the reason", async () => {
    const cases = adapterCases({
      ...fetchHarness,
      lacks: { stream: "it has no streams" },
      serve: () => Promise.reject(new Error("this is not to be served")),
    });
    const skipped = cases.filter(({ skip }) => skip !== undefined);
    expect(new Set(skipped.map(({ skip }) => skip))).toEqual(new Set(["it has no streams"]));
    for (const each of skipped) expect(await failureOf(each), each.name).toBeUndefined();
  });
});

describe.concurrent.each(Object.entries(BROKEN_ADAPTERS))("an adapter that %s", (_, fault) => {
  const cases = adapterCases(brokenHarness(fault));

  test.each(fault.caught)("is caught by: %s", { timeout: 30_000 }, async (name) => {
    const found = cases.filter((each) => each.name === name && each.subject === fault.subject);
    expect(found).toHaveLength(1);
    expect(await failureOf(found[0] as AdapterCase)).toBeInstanceOf(Error);
  });
});

test("a failing case says what was checked, what was expected, what came, and why it matters", async () => {
  const cases = adapterCases(brokenHarness(BROKEN_ADAPTERS["does not mark its replays"]));
  const error = await failureOf(
    cases.find(({ name }) => name === "a 204 is replayed unchanged") as AdapterCase,
  );
  expect((error as Error).message).toBe(`replay: a 204 is replayed unchanged
  asked:    ${REPLAYED_HEADER} of the replay
  expected: ["true"]
  came:     []
  why:      A retry that gets another answer looks like a second order.`);
});

test("a case that hangs is rejected with an error that says so", async () => {
  const hanging = BROKEN_ADAPTERS["never answers when the store is down"];
  const cases = adapterCases({ ...brokenHarness(hanging), patienceMs: 50 });
  const found = cases.find(({ name }) => name.startsWith("a store that fails before the work"));
  const error = await failureOf(found as AdapterCase);
  expect((error as Error).message).toContain("did not end within 50 ms: something hangs");
});
