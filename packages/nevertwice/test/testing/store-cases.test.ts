/** The cases are right where a right store passes them all, and worth having where each of them catches a wrong one. */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import {
  GUARANTEES,
  manualClock,
  type StoreCase,
  type StoreUnderTest,
  storeCases,
} from "../../src/testing/index.ts";
import { BROKEN_STORES } from "./broken-stores.ts";
import { ruleStore } from "./rule-store.ts";
import type { Fault } from "./wrong-rules.ts";

/** What became of each case that was not simply kept: its name, and why. */
async function runAll(cases: readonly StoreCase[]): Promise<{ failed: string[]; skipped: string[] }> {
  const failed: string[] = [];
  const skipped: string[] = [];
  const run = async (asked: StoreCase): Promise<void> => {
    try {
      if (await asked.run()) skipped.push(asked.name);
    } catch {
      failed.push(asked.name);
    }
  };
  await Promise.all(cases.map(run));
  return { failed: failed.sort(), skipped: skipped.sort() };
}

const memoryUnderTest = (): StoreUnderTest => {
  const clock = manualClock();
  return { store: memoryStore({ clock }), advance: clock.advance };
};

const brokenUnderTest = ({ rules, wrap }: Fault): StoreUnderTest => {
  const clock = manualClock();
  const store = ruleStore(clock, rules?.());
  return { store: wrap?.(store) ?? store, advance: clock.advance };
};

const CASES = storeCases(memoryUnderTest);

function caseNamed(name: string, create: () => Store | StoreUnderTest): StoreCase {
  return storeCases(create).find((each) => each.name === name) as StoreCase;
}

describe("the list of cases", () => {
  test("has at least one case for each guarantee, in the order of the guarantees", () => {
    const order = CASES.map(({ guarantee }) => GUARANTEES.indexOf(guarantee));
    expect(new Set(order).size).toBe(19);
    expect(order).toEqual([...order].sort((a, b) => a - b));
  });

  test("has no name twice", () => {
    expect(new Set(CASES.map(({ name }) => name)).size).toBe(CASES.length);
  });
});

describe("a right store", () => {
  test("keeps every case on a clock that is moved, and none is skipped", async () => {
    expect(await runAll(CASES)).toEqual({ failed: [], skipped: [] });
  });

  test("keeps every case in real time, but for a clock that goes back", async () => {
    expect(await runAll(storeCases(() => memoryStore()))).toEqual({
      failed: [],
      skipped: [
        "a fence grows though the clock went back",
        "when the clock went back, the key can be had one lease after somebody asked",
        "when the clock went back, the key is not handed over at once",
        "when the clock went back, the lease that counts is the last one written",
        "when the clock went back, the owner may still complete",
      ],
    });
  });

  test("keeps every case one after another on a store and a clock that they share", async () => {
    const clock = manualClock();
    const store = memoryStore({ clock });
    const shared = storeCases(() => ({ store, advance: clock.advance, dispose: () => undefined }));
    for (const asked of shared) expect(await asked.run(), asked.name).toBeUndefined();
  });

  test("is what the broken stores are before they are broken", async () => {
    const unbroken = storeCases(() => brokenUnderTest({ fault: "none", caught: [] }));
    expect(await runAll(unbroken)).toEqual({ failed: [], skipped: [] });
  });
});

describe.concurrent.each(Object.entries(BROKEN_STORES))(
  "%s is broken by a store that",
  (guarantee, faults) => {
    test.each(faults.map((each) => [each.fault, each] as const))(
      "%s",
      { timeout: 60_000 },
      async (_, broken) => {
        const cases = storeCases(() => brokenUnderTest(broken));
        const { failed } = await runAll(cases);
        const blamed = cases.filter(({ name }) => failed.includes(name)).map((each) => each.guarantee);
        expect(new Set(blamed)).toEqual(new Set([guarantee]));
        expect(failed).toEqual([...broken.caught].sort());
      },
    );
  },
);

test("every case catches at least one broken store", () => {
  const caught = new Set(
    Object.values(BROKEN_STORES).flatMap((faults) => faults.flatMap((each) => each.caught)),
  );
  expect(CASES.map(({ name }) => name).filter((name) => !caught.has(name))).toEqual([]);
});

describe("running a case", () => {
  const FIRST = "a key without a record goes to the first token that claims it";

  test("says what was asked, what was expected, what came, and why it matters", async () => {
    const { store } = memoryUnderTest();
    const refusing: Store = { ...store, claim: async () => ({ status: "pending", leaseLeftMs: 7 }) };
    await expect(caseNamed(FIRST, () => refusing).run()).rejects.toThrow(
      [
        `one-owner: ${FIRST}`,
        "  asked:    the first claim",
        '  expected: { status: "new", number: 1, tookOver: false }',
        '  came:     { status: "pending", leaseLeftMs: 7 }',
        "  why:      The first attempt must know that it is the first: nothing ran before it, and nothing is unknown.",
      ].join("\n"),
    );
  });

  test("says what the store failed with, and keeps the cause", async () => {
    const cause = new Error("connection refused");
    const failing: Store = { ...memoryStore(), claim: () => Promise.reject(cause) };
    const failure = await caseNamed(FIRST, () => failing)
      .run()
      .catch((error: Error) => error);
    expect(failure).toMatchObject({
      message: expect.stringContaining("  came:     Error: connection refused"),
      cause,
    });
  });

  test("disposes of the store when it is over, kept, failed or skipped, and else closes it", async () => {
    const ends: string[] = [];
    const { watch: _, ...store } = memoryStore();
    const close = async () => void ends.push("close");
    const dispose = () => void ends.push("dispose");
    await caseNamed(FIRST, () => ({ ...store, close })).run();
    await caseNamed(FIRST, () => ({ store: { ...store, close }, dispose })).run();
    await caseNamed("a waiter is woken by complete", () => ({ store, dispose })).run();
    const failing: Store = { ...store, claim: () => Promise.reject(new Error("down")) };
    await expect(caseNamed(FIRST, () => ({ store: failing, dispose })).run()).rejects.toThrow("down");
    expect(ends).toEqual(["close", "dispose", "dispose", "dispose"]);
  });

  test("says that the store could not be closed, unless the case itself failed", async () => {
    const dispose = () => Promise.reject(new Error("still open"));
    await expect(caseNamed(FIRST, () => ({ store: memoryStore(), dispose })).run()).rejects.toThrow(
      "still open",
    );
    const failing: Store = { ...memoryStore(), claim: () => Promise.reject(new Error("down")) };
    await expect(caseNamed(FIRST, () => ({ store: failing, dispose })).run()).rejects.toThrow("down");
  });

  test("skips with a written reason what the store cannot be asked", async () => {
    const { watch: _watch, list: _list, forget: _forget, keepStep: _keepStep, ...others } = memoryStore();
    const { undecided: _undecided, namespaces: _namespaces, ...bare } = others;
    const cases = storeCases(() => ({ ...bare, collectsItself: true }));
    const reasons = new Set<string>();
    for (const asked of cases.filter(({ name }) =>
      /waiter|list|forg|clock went back|removes|step|undecided/.test(name),
    )) {
      const answer = await asked.run();
      if (answer) reasons.add(answer.skipped);
    }
    expect([...reasons].sort()).toEqual([
      "The store has no `forget`.",
      "The store has no `keepStep`: work on it has no steps.",
      "The store has no `list`.",
      "The store has no `namespaces`.",
      "The store has no `undecided`.",
      "The store has no `watch`: its waiters poll.",
      "The store says `collectsItself`: its database removes what is past its time.",
      "The store's clock cannot be turned back from here: no `advance` was given.",
    ]);
  });
});
