/** Runs many sagas in a process that is killed at random, until each has ended, and judges them by their ledgers. */
import { randomInt, randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import { notesIn } from "./ledger.ts";
import { type Message, startProcess } from "./processes.ts";
import { sagaProblems } from "./saga-referee.ts";
import type { SagaNote } from "./workers/saga-steps.js";

export interface SagaKills {
  /** Of a store whose tables exist. */
  readonly url: string;
  /** Where the ledgers are. */
  readonly folder: string;
  readonly sagas: number;
  readonly kills: number;
}

export interface SagaKillsReport {
  readonly problems: readonly string[];
  /** How many sagas ended in each way. */
  readonly ends: Readonly<Record<string, number>>;
  /** How many effects were in flight when their process was killed. */
  readonly interrupted: number;
}

const STEPS = 4;
const LEASE_MS = 300;

export async function killSagas(
  context: TestContext,
  { url, folder, sagas, kills }: SagaKills,
): Promise<SagaKillsReport> {
  const orders = Array.from({ length: sagas }, () => {
    const key = randomUUID();
    // Some sagas succeed, and some undos fail.
    const failsAt = randomInt(0, STEPS * 2);
    const stuckAt = randomInt(0, STEPS * 4);
    return { key, notes: join(folder, key), failsAt, stuckAt };
  });
  const options = { url, namespace: "sagas", sagas: orders, steps: STEPS, leaseMs: LEASE_MS, effectMs: 100 };
  for (let kill = 0; kill < kills; kill++) {
    const worker = startProcess(context, "saga.js", options);
    await worker.next("begun");
    // The claims of the killed process before it have to lapse first.
    await sleep(randomInt(10, 2 * LEASE_MS));
    worker.signal("SIGKILL");
    await worker.ended;
  }
  const last = startProcess(context, "saga.js", options);
  const { ends } = await last.next<Message & { kind: "ended"; ends: readonly string[] }>("ended");
  await last.ended;

  const problems: string[] = [];
  let interrupted = 0;
  for (const [index, { key, notes: file }] of orders.entries()) {
    const notes = await notesIn<SagaNote>(file);
    problems.push(...sagaProblems(notes, STEPS, ends[index] ?? "").map((problem) => `${key}: ${problem}`));
    const begins = notes.filter(({ phase }) => phase === "begin").length;
    interrupted += 2 * begins - notes.length;
  }
  const counts: Record<string, number> = {};
  for (const end of ends) counts[end] = (counts[end] ?? 0) + 1;
  return { problems, ends: counts, interrupted };
}
