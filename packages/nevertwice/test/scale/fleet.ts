/** Runs processes on a database of several nodes that fail again and again, and judges what the processes saw. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { count, reportOn } from "./figures.ts";
import { notesIn, startLedger } from "./ledger.ts";
import {
  type ClaimantNote,
  type FaultWindow,
  judgeLostLeader,
  type LostLeaderVerdict,
  stepSpeeds,
} from "./lost-leader-judge.ts";
import { startProcess } from "./processes.ts";

export interface FleetFault {
  /** As a clause: `the leader was killed`. */
  readonly name: string;
  /** Resolves once the fault has shown, to what ends it. */
  strike(): Promise<() => unknown>;
}

export interface FleetPlan {
  /** Each process uses the next one of these stores. */
  readonly urls: readonly string[];
  readonly processes: number;
  readonly lanes: number;
  /** How long each lane rests after a claim, so that the databases get their share of the machine. */
  readonly pauseMs: number;
  /** In turn, until there were so many. */
  readonly faults: readonly FleetFault[];
  readonly rounds: number;
  /** Waits until the database can lose another node. */
  ready(): Promise<unknown>;
  readonly store: Pick<Store, "read">;
}

export interface FleetTrial extends LostLeaderVerdict {
  readonly faults: ReadonlyMap<string, number>;
  readonly lastedS: number;
  readonly speeds: ReturnType<typeof stepSpeeds>;
}

/** How long the database works without a fault between two of them. */
const BETWEEN_MS = 1_000;
const MOST_READS = 120;

const now = () => Number(process.hrtime.bigint() / 1_000n);

export async function strikeFleet(context: TestContext, plan: FleetPlan): Promise<FleetTrial> {
  const { urls, processes, lanes, pauseMs, rounds, ready, store } = plan;
  const folder = await scratchFolder(context);
  const ledger = await startLedger(context);
  const files = Array.from({ length: processes }, (_, i) => join(folder, `process-${i}`));
  const running = files.map((notes, i) =>
    startProcess(context, "claimant.js", {
      ...{ url: urls[i % urls.length], ledger: ledger.port },
      ...{ lanes, pauseMs, notes },
    }),
  );
  await Promise.all(running.map((each) => each.next("ready")));
  for (const each of running) each.tell("begin");
  const from = now();
  const windows: FaultWindow[] = [];
  const faults = new Map<string, number>();
  for (let round = 0; round < rounds; round++) {
    const { name, strike } = plan.faults[round % plan.faults.length] as FleetFault;
    await ready();
    await sleep(BETWEEN_MS);
    const began = now();
    await (await strike())();
    windows.push({ from: began, to: now() });
    faults.set(name, (faults.get(name) ?? 0) + 1);
  }
  await sleep(BETWEEN_MS);
  const to = now();
  for (const each of running) each.tell("end");
  await Promise.all(running.map(({ ended }) => ended));
  const notes = (await Promise.all(files.map((path) => notesIn<ClaimantNote>(path)))).flat();
  const verdict = await judgeLostLeader(patient(store), notes, await ledger.report());
  return {
    ...verdict,
    faults,
    lastedS: Math.round((to - from) / 1e6),
    speeds: stepSpeeds(notes, windows, { from, to }),
  };
}

/** The last fault may still show when the trial is judged. */
function patient(store: Pick<Store, "read">): Pick<Store, "read"> {
  return {
    async read(id) {
      for (let tries = 1; ; tries++) {
        try {
          return await store.read(id);
        } catch (error) {
          if (!isNevertwiceError(error, "unavailable") || tries >= MOST_READS) throw error;
          await sleep(BETWEEN_MS);
        }
      }
    },
  };
}

export function reportFleet(title: string, trial: FleetTrial, processes: number): void {
  const { steps, repeated, owners, outcomes, faults, speeds, lastedS } = trial;
  const { lostOutcomes, lostClaims, freedBefore, duplicateWinners, fencesThatFell } = trial;
  const struck = [...faults].map(([name, times]) => `${name} ${times} times`).join(", ");
  const total = [...faults.values()].reduce((sum, times) => sum + times, 0);
  const figures =
    `${processes} processes for ${lastedS} s, ${total} faults (${struck}): ${count(steps)} acknowledged steps, ` +
    `${count(repeated)} of them after a repetition, ${count(owners)} owners, ${count(outcomes)} outcomes; ` +
    `${count(duplicateWinners.length)} duplicate winners, ${count(lostOutcomes.length)} acknowledged outcomes lost, ` +
    `${count(lostClaims.length)} claims lost (and ${count(freedBefore)} given up twice, because the first answer was lost), ` +
    `${count(fencesThatFell.length)} fences that did not grow; ` +
    `during the faults ${speeds.during}; between them ${speeds.after}`;
  reportOn(title, { trial: "Claims and outcomes while nodes fail", figures });
}

/** For a setting that the doctor calls safe. */
export function expectSafe(trial: FleetTrial, rounds: number): void {
  expect(trial.duplicateWinners).toEqual([]);
  expect(trial.lostOutcomes).toEqual([]);
  expect(trial.lostClaims).toEqual([]);
  expect(trial.fencesThatFell).toEqual([]);
  expect([...trial.faults.values()].reduce((sum, times) => sum + times, 0)).toBe(rounds);
  expect(trial.outcomes).toBeGreaterThan(0);
}
