/**
 * Runs a long trial on one store: processes make calls at a steady rate, something reads for the whole first quarter, and in
 * the third quarter the store fails. After each fault and at the end, all acknowledged outcomes are read back.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { scratchFolder } from "../scratch-folder.ts";
import {
  acknowledgedKeys,
  type Drift,
  type EffectsVerdict,
  type EnduranceNote,
  type EnduringProcess,
  judgeEffects,
  measureDrift,
  measureLatency,
  measureProcesses,
  megabytes,
  type Quarters,
  readBackAll,
  type Series,
} from "./endurance-judge.ts";
import { count } from "./figures.ts";
import { notesIn } from "./ledger.ts";
import { type Process, startProcess } from "./processes.ts";
import { IS_FULL } from "./sizes.ts";

/** What a trial does to a store beside the calls. */
export interface EnduredStore {
  readonly url: string;
  /** Opens what reads for a long time; resolves to how it is closed. */
  readForLong(): Promise<() => unknown>;
  /** One after the other in the third quarter. Each resolves when the store is whole again. */
  readonly faults: readonly EnduranceFault[];
  /** The bytes of its tables and files. */
  size(): Promise<number>;
}

export interface EnduranceFault {
  readonly name: string;
  strike(processes: EndurancePool): Promise<unknown>;
}

export interface EndurancePool {
  /** Kills a process, and starts another one in its place. */
  replaceOne(): Promise<void>;
}

export interface EnduranceSize {
  readonly seconds: number;
  readonly processes: number;
  readonly perSecond: number;
  readonly duplicates: number;
  readonly retentionMs: number;
  readonly purgeEveryMs: number;
}

export interface EnduranceTrial extends EffectsVerdict {
  readonly lastedS: number;
  readonly drifts: readonly Drift[];
  /** Acknowledged outcomes that were read back, and those that the store no longer had. */
  readonly readBack: number;
  readonly lost: readonly string[];
  /** The share of calls in the second and last quarter that were refused, though nothing had failed. */
  readonly refusedShare: number;
}

const SAMPLES_PER_QUARTER = 20;
const now = () => Number(process.hrtime.bigint() / 1_000n);

export async function endure(
  context: TestContext,
  { size, endured, store }: { size: EnduranceSize; endured: EnduredStore; store: Store },
): Promise<EnduranceTrial> {
  const quarterMs = (size.seconds * 1_000) / 4;
  // The first call creates the file of SQLite.
  await store.read("none");
  const pool = await startPool(context, endured.url, size, quarterMs / SAMPLES_PER_QUARTER);
  const from = now();
  const startedAt = performance.now();
  const until = (quarter: number) => sleep(Math.max(0, startedAt + quarter * quarterMs - performance.now()));
  pool.begin(from);
  const sizes = startSampling(endured, { everyMs: quarterMs / SAMPLES_PER_QUARTER, seconds: size.seconds });
  let readBack = 0;
  const lost: string[] = [];
  const readAll = async () => {
    const found = await readBackAll(store, acknowledgedKeys(await pool.judged()), size.retentionMs, now);
    readBack += found.readBack;
    lost.push(...found.lost);
  };

  const closeReader = await endured.readForLong();
  await until(1);
  await closeReader();
  for (const [index, fault] of endured.faults.entries()) {
    await until(2 + index / endured.faults.length);
    if (IS_FULL) console.log(`${((performance.now() - startedAt) / 1_000).toFixed(0)} s: ${fault.name}`);
    await fault.strike(pool);
    await readAll();
  }
  await until(4);
  const to = now();
  const points = await sizes.stop();
  await pool.end();
  await readAll();

  const processes = await pool.judged();
  const quarterUs = quarterMs * 1_000;
  const quarters: Quarters = [from, from + quarterUs, from + 2 * quarterUs, from + 3 * quarterUs, to];
  const series: Series[] = [
    ...measureLatency(processes, quarterUs / SAMPLES_PER_QUARTER),
    ...measureProcesses(processes),
    { what: "size of tables and files", points, show: megabytes },
  ];
  return {
    ...judgeEffects(processes, size.retentionMs),
    lastedS: (to - from) / 1_000_000,
    drifts: measureDrift(series, quarters),
    readBack,
    lost,
    refusedShare: calmRefusals(processes, quarters),
  };
}

interface Pool extends EndurancePool {
  begin(at: number): void;
  end(): Promise<void>;
  judged(): Promise<readonly EnduringProcess[]>;
}

async function startPool(
  context: TestContext,
  url: string,
  size: EnduranceSize,
  sampleMs: number,
): Promise<Pool> {
  const { processes, perSecond, duplicates, retentionMs, purgeEveryMs } = size;
  const folder = await scratchFolder(context);
  const shared = { url, processes, perSecond: perSecond / processes, duplicates, retentionMs, purgeEveryMs };
  const all: { readonly notes: string; readonly process: Process; wasKilled: boolean }[] = [];
  const start = (index: number) => {
    const notes = join(folder, `${all.length}.jsonl`);
    const process = startProcess(context, "endurer.js", { ...shared, sampleMs, notes, index });
    const started = { notes, process, wasKilled: false };
    all.push(started);
    return started;
  };
  for (let index = 0; index < processes; index++) start(index);
  await Promise.all(all.map(({ process }) => process.next("ready")));
  let beganAt = 0;
  return {
    begin(at) {
      beganAt = at;
      for (const { process } of all) process.tell(String(at));
    },
    async replaceOne() {
      const [victim] = all;
      if (victim === undefined) throw new Error("no process runs");
      victim.wasKilled = true;
      victim.process.signal("SIGKILL");
      await victim.process.ended;
      const { process } = start(0);
      await process.next("ready");
      process.tell(String(beganAt));
    },
    async end() {
      const living = all.filter(({ wasKilled }) => !wasKilled);
      for (const { process } of living) process.tell("end");
      await Promise.all(living.map(({ process }) => process.ended));
    },
    judged: () =>
      Promise.all(
        all.map(async ({ notes, wasKilled }) => ({ notes: await notesIn<EnduranceNote>(notes), wasKilled })),
      ),
  };
}

/** Measures the store's size until it is stopped, and prints how far the trial is. A measurement while the store is down is left out. */
function startSampling(endured: EnduredStore, { everyMs, seconds }: { everyMs: number; seconds: number }) {
  const points: { at: number; value: number }[] = [];
  const stopping = new AbortController();
  const startedAt = performance.now();

  async function sample(): Promise<void> {
    await sleep(everyMs, undefined, { signal: stopping.signal });
    const value = await endured.size();
    points.push({ at: now(), value });
    const passed = (performance.now() - startedAt) / 1_000;
    if (IS_FULL && points.length % 4 === 0)
      console.log(`${passed.toFixed(0)} of ${count(seconds)} s: the store has ${megabytes(value)}`);
  }

  async function sampleUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) await sample().catch(() => {});
  }

  const sampling = sampleUntilStopped();
  return {
    async stop() {
      stopping.abort();
      await sampling;
      return points;
    },
  };
}

/** The share of the calls in the second and the last quarter that were refused. */
function calmRefusals(processes: readonly EnduringProcess[], quarters: Quarters): number {
  const isCalm = (at: number) => (at >= quarters[1] && at < quarters[2]) || at >= quarters[3];
  let calls = 0;
  let refused = 0;
  for (const { notes } of processes)
    for (const note of notes) {
      if (note[0] !== "answer" || !isCalm(note[4])) continue;
      calls++;
      if (note[2] !== "ran" && note[2] !== "replayed") refused++;
    }
  return refused / calls;
}
