/** Tests sagas on real stores, and with processes that are killed at every named point of them. Needs the build. */
import { join } from "node:path";
import { describe, expect, type TestContext, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { saga } from "../../src/saga/index.ts";
import { everyPage } from "../every-page.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { tellCounts } from "./figures.ts";
import { notesIn } from "./ledger.ts";
import { type Message, startProcess } from "./processes.ts";
import { killSagas } from "./saga-kills.ts";
import { sagaProblems } from "./saga-referee.ts";
import { EVERY_SUBJECT, openSubject, POSTGRES, SQLITE, type Subject } from "./subjects.ts";
import { type SagaNote, sagaNames, sagaSteps } from "./workers/saga-steps.js";

const STEPS = 2;
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

/** Every point of a saga whose last step fails, and those that only a saga that succeeds has. */
const DONE_POINTS = [...forward(LAST), "complete", "completed"];
const UNDONE_POINTS = [
  ...names.slice(0, -1).flatMap(forward),
  `run ${LAST}`,
  `keep saga: undo from ${LAST}`,
  `kept saga: undo from ${LAST}`,
  ...names.toReversed().flatMap(backward),
  "complete",
  "completed",
];
/** The undo of the first step fails, after that of the last one. */
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

/** Kills a process at the point of each case, and then lets one process end all of their sagas. */
async function runCases(context: TestContext, subject: Subject, cases: readonly Case[]): Promise<void> {
  const url = await subject.create(context);
  await openSubject(context, url);
  const folder = await scratchFolder(context);
  const orders = cases.map(({ failsAt, stuckAt }, index) => ({
    key: `order-${index}`,
    notes: join(folder, `${index}`),
    failsAt,
    stuckAt,
  }));
  const options = { url, namespace: "sagas", steps: STEPS, leaseMs: LEASE_MS };
  const left = [...cases.entries()];
  async function killNext(): Promise<void> {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [index, { end, point }] = next;
      const killed = startProcess(context, "saga.js", { ...options, sagas: [orders[index]], point });
      await killed.ended;
      await expect(killed.next("ended"), `${end}: ${point} was not reached`).rejects.toThrow("SIGKILL");
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, killNext));
  const resumed = startProcess(context, "saga.js", { ...options, sagas: orders });
  const { ends } = await resumed.next<Message & { kind: "ended"; ends: readonly string[] }>("ended");
  for (const [index, { end, point }] of cases.entries()) {
    const notes = await notesIn<SagaNote>(join(folder, `${index}`));
    expect(ends[index], point).toBe(end);
    expect(sagaProblems(notes, STEPS, end), point).toEqual([]);
  }
  await resumed.ended;
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

test("sagas whose process is killed at random end done, undone or parked, by their ledgers", async (context) => {
  const url = await POSTGRES.create(context);
  await openSubject(context, url);
  const folder = await scratchFolder(context);
  const { problems, ends, interrupted } = await killSagas(context, { url, folder, sagas: 40, kills: 8 });
  console.log(`${interrupted} effects were in flight in a kill; ${tellCounts(ends)}`);
  expect(problems).toEqual([]);
  expect(Object.keys(ends)).toEqual(expect.arrayContaining(["done", "undone"]));
  expect(interrupted).toBeGreaterThan(0);
});

describe("a saga goes on where it was, forward and backward, and is parked and resolved", () => {
  for (const subject of EVERY_SUBJECT)
    test(`on ${subject.name}`, async (context) => {
      const store = await openSubject(context, await subject.create(context));
      const guard = createGuard({ store, namespace: "sagas", purgeEveryMs: 0 });
      const key = { operation: "order", key: "order-1" };
      const notes: SagaNote[] = [];
      const interrupted = new Set(["ran step 0", "undid step 1"]);
      let isStuck = true;
      const steps = sagaSteps(STEPS, {
        write: (note) => notes.push(note),
        kept: async () => (await guard.read(key))?.steps?.map(({ name }) => name) ?? [],
        fails: (direction, step) => (direction === "run" ? step === LAST : isStuck && step === "step 0"),
        reach(point) {
          if (interrupted.delete(point)) throw new NevertwiceError("unavailable", "no store");
        },
      });
      const call = () => saga(guard, { ...key, fingerprint: { amount: 1 }, undoRetry: { max: 0 } }, steps);
      expect(await call()).toMatchObject({ status: "unknown" });
      expect(await call()).toMatchObject({ status: "unknown" });
      const parked = await call();
      expect(parked).toMatchObject({ status: "parked", step: "step 0" });
      expect(await call()).toEqual(parked);
      const { records, unreadable } = await everyPage(guard.listUnknown);
      // A list that lacks the record is explained by what a read and a second list say at the same time.
      const seen = { unreadable, read: await guard.read(key), listed: await everyPage(guard.list) };
      expect(records, JSON.stringify(seen)).toMatchObject([{ key: "order-1", held: true, state: "lapsed" }]);
      expect(sagaProblems(notes, STEPS, "parked")).toEqual([]);
      isStuck = false;
      const { fence } = parked as { readonly fence: number };
      expect(await guard.resolve({ ...key, fence }, { status: "not-done" })).toBe(true);
      const undone = { status: "undone", step: LAST, error: new Error(`run of ${LAST} failed`) };
      expect(await call()).toEqual(undone);
      expect(await call()).toEqual(undone);
      expect(sagaProblems(notes, STEPS, "undone")).toEqual([]);
      await guard.close();
    });
});
