import { expect, test } from "vitest";
import { decisionEntry, parkedEntry, SagaLog, undoneEntry } from "../../src/saga/saga-log.ts";

const kept = (name: string, value: unknown = null) => ({ name, outcome: JSON.stringify(["1vp", value]) });

test("reads what happened from the names, whatever characters the steps have", () => {
  const [a, b] = ["parked 1: x\ny", "undo from z"];
  const log = new SagaLog().read([
    kept(a, 1),
    kept(decisionEntry(b, true), "failed"),
    kept(undoneEntry(b)),
    kept(parkedEntry(a, 2), "stuck"),
  ]);
  expect(log).toMatchObject({
    outcomes: new Map([[a, 1]]),
    decision: { step: b, mayHaveHappened: true, error: "failed" },
    undone: new Set([b]),
    parked: { step: a, error: "stuck" },
    parkedCount: 2,
    lost: undefined,
    size: 4,
  });
});

test("the first decision stands", () => {
  const log = new SagaLog().read([kept(decisionEntry("a", false), 1), kept(decisionEntry("b", true), 2)]);
  expect(log.decision).toEqual({ step: "a", mayHaveHappened: false, error: 1 });
});

test("undoes the step that threw and then the finished ones, each once", () => {
  const log = new SagaLog().read([kept("a"), kept("b")]);
  const order = (step: string, mayHaveHappened: boolean) =>
    log.toUndo({ step, mayHaveHappened, error: undefined });
  expect(order("c", true)).toEqual(["c", "b", "a"]);
  expect(order("c", false)).toEqual(["b", "a"]);
  expect(order("b", true)).toEqual(["b", "a"]);
});

test("reads only what was added since the last call", () => {
  const log = new SagaLog().read([kept("a", 1)]);
  expect(log.read([kept("a", "changed"), kept("b", 2)]).outcomes).toEqual(
    new Map([
      ["a", 1],
      ["b", 2],
    ]),
  );
});
