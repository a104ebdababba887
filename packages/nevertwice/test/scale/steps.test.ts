/** Tests that a process that is killed between its steps makes the next attempt repeat at most the step in flight. Needs the build. */
import { randomInt, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { notesIn } from "./ledger.ts";
import { type Message, startProcess } from "./processes.ts";
import { openSubject, POSTGRES, REDIS, SQLITE, type Subject } from "./subjects.ts";
import type { StepNote } from "./workers/stepper.js";

const STEPS = 16;
const LEASE_MS = 1_000;
/** For each store. */
const KEYS = 3;
const KILLS_PER_KEY = 5;

interface Trial {
  readonly url: string;
  readonly folder: string;
  readonly hasNoSteps?: boolean;
}

async function startTrial(context: TestContext, subject: Subject): Promise<Trial> {
  const url = await subject.create(context);
  await openSubject(context, url);
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-steps-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return { url, folder };
}

/** Kills the process of a key `kills` times, each time soon after a step began, and then lets it finish. */
async function killBetweenSteps(context: TestContext, { url, folder, hasNoSteps }: Trial, kills: number) {
  const key = randomUUID();
  const options = {
    url,
    namespace: "steps",
    key,
    steps: STEPS,
    leaseMs: LEASE_MS,
    notes: join(folder, key),
    hasNoSteps,
  };
  let killed = 0;
  for (let kill = 0; kill < kills; kill++) {
    const worker = startProcess(context, "stepper.js", options);
    const steps = randomInt(1, 4);
    try {
      for (let begun = 0; begun < steps; begun++) await worker.next("begun");
    } catch {
      // Fewer steps were left: the work is done.
      await worker.ended;
      break;
    }
    await sleep(randomInt(0, 12));
    worker.signal("SIGKILL");
    await worker.ended;
    killed++;
  }
  const last = startProcess(context, "stepper.js", options);
  const { done } = await last.next<Message & { kind: "done"; done: readonly number[] }>("done");
  await last.ended;
  return { killed, done, notes: await notesIn<StepNote>(options.notes) };
}

/** What went wrong: a step that began although it was finished, or was left out. */
function problemsIn(notes: readonly StepNote[], done: readonly number[]): readonly string[] {
  const problems: string[] = [];
  let [attempt, step] = [0, -1];
  for (const [nextAttempt, nextStep] of notes) {
    const isRepeat = nextStep === step && nextAttempt > attempt;
    if (nextStep !== step + 1 && !isRepeat)
      problems.push(`attempt ${nextAttempt} began step ${nextStep} after step ${step} of attempt ${attempt}`);
    [attempt, step] = [nextAttempt, nextStep];
  }
  if (step !== STEPS - 1) problems.push(`the last step that began is ${step}`);
  const lastRuns = new Map(notes.map(([by, index]) => [index, by]));
  for (const [index, by] of done.entries())
    if (lastRuns.get(index) !== by) problems.push(`step ${index} has the outcome of attempt ${by}`);
  return problems;
}

describe("a process that is killed between its steps makes the next attempt repeat at most the step in flight", () => {
  for (const subject of [SQLITE, POSTGRES, REDIS])
    test(`on ${subject.name}`, async (context) => {
      const trial = await startTrial(context, subject);
      const keys = Array.from({ length: KEYS }, () => killBetweenSteps(context, trial, KILLS_PER_KEY));
      const ends = await Promise.all(keys);
      for (const { notes, done } of ends) expect(problemsIn(notes, done)).toEqual([]);
      const killed = ends.reduce((sum, end) => sum + end.killed, 0);
      const repeated = ends.reduce((sum, { notes }) => sum + notes.length - STEPS, 0);
      console.log(`${subject.name}: ${killed} kills, ${repeated} steps in flight were repeated`);
      expect(killed).toBeGreaterThanOrEqual(KEYS);
      expect(repeated).toBeLessThanOrEqual(killed);
    });

  test("and the test reports work that keeps no steps", async (context) => {
    const trial = { ...(await startTrial(context, SQLITE)), hasNoSteps: true };
    const { killed, notes, done } = await killBetweenSteps(context, trial, 2);
    expect(killed).toBe(2);
    expect(problemsIn(notes, done)).not.toEqual([]);
  });
});
