/** The cases are worth having where they catch adapters that are wrong; right ones are asked in `test/http/`. */
import { describe, expect, test } from "vitest";
import { type AdapterCase, adapterCases } from "../../src/testing/adapter-cases.ts";
import { fetchHarness } from "../http/adapters/fetch.ts";
import { BROKEN_ADAPTERS, brokenHarness } from "./broken-adapters.ts";

const CASES = adapterCases(fetchHarness);

async function failureOf({ run }: AdapterCase): Promise<unknown> {
  return run().then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe("the list of cases", () => {
  test("has no name twice", () => {
    expect(new Set(CASES.map(({ name }) => name)).size).toBe(CASES.length);
  });

  test("says why a case cannot be asked of a framework, and asks nothing then", async () => {
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

test("a case that fails says what was asked, what was expected, what came, and why it matters", async () => {
  const cases = adapterCases(brokenHarness(BROKEN_ADAPTERS["does not mark its replays"]));
  const error = await failureOf(
    cases.find(({ name }) => name === "a 204 comes back as it was") as AdapterCase,
  );
  expect((error as Error).message).toBe(`replay: a 204 comes back as it was
  asked:    Idempotent-Replayed of the replay
  expected: ["true"]
  came:     []
  why:      A retry that gets something else than the first answer cannot be told from a second order.`);
});

test("a case that hangs fails and says so", async () => {
  const hanging = BROKEN_ADAPTERS["never answers when the store is down"];
  const cases = adapterCases({ ...brokenHarness(hanging), patienceMs: 50 });
  const found = cases.find(({ name }) => name.startsWith("a store that refuses before the work"));
  const error = await failureOf(found as AdapterCase);
  expect((error as Error).message).toContain("did not end within 50 ms: something hangs");
});
