/** Tests sagas with processes that are killed at every named point of them, going forward and backward. Needs the build. */
import { join } from "node:path";
import { describe, expect, type TestContext, test } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { notesIn } from "./ledger.ts";
import { type Message, startProcess } from "./processes.ts";
import { sagaProblems } from "./saga-referee.ts";
import { openSubject, POSTGRES, SQLITE, type Subject } from "./subjects.ts";
import { type SagaNote, sagaNames } from "./workers/saga-steps.js";

const STEPS = 3;
const LEASE_MS = 300;
const AT_ONCE = 4;

const names = sagaNames(STEPS);
const forward = (name: string) => [`run ${name}`, `ran ${name}`, `keep ${name}`, `kept ${name}`];
const backward = (name: string) => [
  `undo ${name}`,
  `undid ${name}`,
  `keep saga: undid ${name}`,
  `kept saga: undid ${name}`,
];
const LAST = names.at(-1) as string;

/** Every point of a saga that succeeds, and of one whose last step fails. */
const DONE_POINTS = [...names.flatMap(forward), "complete", "completed"];
const UNDONE_POINTS = [
  ...names.slice(0, -1).flatMap(forward),
  `run ${LAST}`,
  `keep saga: undo from ${LAST}`,
  `kept saga: undo from ${LAST}`,
  ...names.toReversed().flatMap(backward),
  "complete",
  "completed",
];
/** The undo of the first step fails, after two others. */
const PARKED_POINTS = [
  "kept saga: undid step 1",
  "undo step 0",
  "keep saga: parked 1: step 0",
  "kept saga: parked 1: step 0",
];

interface Case {
  readonly end: "done" | "undone" | "parked";
  readonly point: string;
  readonly failsAt?: number;
  readonly stuckAt?: number;
}

const CASES: readonly Case[] = [
  ...DONE_POINTS.map((point) => ({ end: "done", point }) as const),
  ...UNDONE_POINTS.map((point) => ({ end: "undone", point, failsAt: STEPS - 1 }) as const),
  ...PARKED_POINTS.map((point) => ({ end: "parked", point, failsAt: STEPS - 1, stuckAt: 0 }) as const),
];

async function runCases(context: TestContext, subject: Subject, cases: readonly Case[]): Promise<void> {
  const url = await subject.create(context);
  await openSubject(context, url);
  const folder = await scratchFolder(context);
  const left = [...cases.entries()];
  async function runNext(): Promise<void> {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [index, { end, point, failsAt, stuckAt }] = next;
      const order = { key: `order-${index}`, notes: join(folder, `${index}`), failsAt, stuckAt };
      const options = { url, namespace: "sagas", sagas: [order], steps: STEPS, leaseMs: LEASE_MS };
      const killed = startProcess(context, "saga.js", { ...options, point });
      await killed.ended;
      await expect(killed.next("ended"), `${end}: ${point} was not reached`).rejects.toThrow("SIGKILL");
      const resumed = startProcess(context, "saga.js", options);
      const { ends } = await resumed.next<Message & { kind: "ended"; ends: readonly string[] }>("ended");
      const notes = await notesIn<SagaNote>(order.notes);
      expect(ends, point).toEqual([end]);
      expect(sagaProblems(notes, STEPS, end), point).toEqual([]);
      await resumed.ended;
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, runNext));
}

describe("a saga whose process is killed goes on where it was, and ends done, undone or parked", () => {
  test("on SQLite, at every point", (context) => runCases(context, SQLITE, CASES));

  test("on Postgres, at every point of the decision", (context) =>
    runCases(
      context,
      POSTGRES,
      CASES.filter(({ point }) => point.includes("undo from") || point.includes("parked")),
    ));
});
