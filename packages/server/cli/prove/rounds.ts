/** The rounds of a run: in each, the processes call the store about fresh keys under one kind of fault; then every key is checked. */
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Crew, startCrew } from "./crew.ts";
import { type FaultKind, QUIET } from "./fault-kinds.ts";
import { type KeyOperation, type MayBeRepeated, withRepetitions } from "./history.ts";
import type { ClockBounds } from "./key-state.ts";
import { checkKeyHistory } from "./linearizability.ts";
import { takeHistories } from "./notes.ts";
import { seededDraws } from "./random.ts";
import { monotonicUs, type ProvedKey } from "./recorded-store.ts";

export interface RunSettings {
  /** Where the processes connect to: a proxy, or the store itself. */
  readonly url: string;
  readonly seconds: number;
  readonly seed: number;
  readonly faults: readonly FaultKind[];
  readonly bounds: ClockBounds;
  /** For a driver that repeats calls whose connection broke. */
  readonly mayBeRepeated?: MayBeRepeated | undefined;
  readonly namespace: string;
  /** The module whose `openStore` the processes use; default: that of the library. */
  readonly opener?: string | undefined;
  /** The program of a process, as a path; default: the one beside this file. */
  readonly program?: string;
  readonly size?: Partial<RunSize>;
  /** More variables for the processes. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Gets every key before it is used, so that the keys of a run that fails can be removed too. */
  readonly written?: ProvedKey[];
  /** Ends the run after the round that is running. */
  readonly signal?: AbortSignal;
  onRound?(report: RunReport): void;
}

export interface RunSize {
  readonly processes: number;
  /** How many calls of each process are in flight at once. */
  readonly lanes: number;
  readonly keysPerRound: number;
  readonly callsPerRound: number;
  readonly roundMs: number;
  readonly leaseMs: number;
}

export const RUN_SIZE: RunSize = {
  processes: 4,
  lanes: 4,
  keysPerRound: 16,
  callsPerRound: 6_400,
  roundMs: 1_800,
  leaseMs: 350,
};

const PROGRAM = fileURLToPath(new URL("worker-main.js", import.meta.url));
/** Records that a run leaves behind, because it was killed, expire after this time. */
export const RETENTION_MS = 600_000;
const TIMEOUT_MS = 1_500;
/** The check of a key is given up after so many steps: a second or two. */
const MOST_VISITS = 20_000;
/** A round that takes so much longer than it should has failed. */
const GRACE_MS = 60_000;

export interface FaultTally {
  readonly fault: string;
  readonly what: string;
  rounds: number;
  struck: number;
  keys: number;
  /** The calls about the keys that were decided. */
  calls: number;
  /** Calls that were never answered, or failed. */
  unanswered: number;
  undecided: number;
  readonly violations: KeyFinding[];
}

export interface KeyFinding {
  readonly round: number;
  readonly key: string;
  readonly explanation: readonly string[];
}

export interface RunReport {
  readonly tallies: readonly FaultTally[];
  readonly keys: readonly ProvedKey[];
  /** What the calls did, each once. */
  readonly covered: ReadonlySet<string>;
}

/** The most keys that a run writes. */
export function mostKeys(seconds: number, { roundMs, keysPerRound }: RunSize = RUN_SIZE): number {
  return Math.ceil((seconds * 1_000) / roundMs) * keysPerRound;
}

export function freshNamespace(): string {
  return `nevertwice-prove-${randomBytes(6).toString("hex")}`;
}

export async function runRounds(settings: RunSettings): Promise<RunReport> {
  const { url, seconds, seed, namespace, env, opener, program = PROGRAM, mayBeRepeated } = settings;
  const size = { ...RUN_SIZE, ...settings.size };
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-prove-"));
  const worker = { url, opener, folder, lanes: size.lanes, leaseMs: size.leaseMs };
  const tallies = new Map<string, FaultTally>();
  const { written = [] } = settings;
  const report: RunReport & { readonly covered: Set<string> } = {
    get tallies() {
      return [...tallies.values()];
    },
    keys: written,
    covered: new Set(),
  };
  let crew: Crew | undefined;
  try {
    crew = await startCrew({
      processes: size.processes,
      program,
      worker: { ...worker, retentionMs: RETENTION_MS, timeoutMs: TIMEOUT_MS },
      seed,
      env,
    });
    const kinds = [QUIET, ...settings.faults];
    const endsAt = performance.now() + seconds * 1_000;
    const mostRounds = Math.ceil((seconds * 1_000) / size.roundMs);
    for (let round = 0; !isOver(round); round++) {
      const fault = kinds[round % kinds.length] as FaultKind;
      const keys = freshKeys(namespace, round, size.keysPerRound);
      written.push(...keys);
      const struck = await runRound({ crew, fault, keys, round, seed, size });
      const tally = tallies.get(fault.name) ?? emptyTally(fault);
      tallies.set(fault.name, tally);
      tally.rounds++;
      tally.struck += struck;
      const bounds = { ...settings.bounds, ...fault.bounds };
      const histories = await takeHistories(folder, round);
      checkRound({ histories, round, bounds, mayBeRepeated, tally, covered: report.covered });
      settings.onRound?.(report);
    }
    return report;

    function isOver(round: number): boolean {
      if (settings.signal?.aborted || round >= mostRounds) return true;
      return round > 0 && performance.now() >= endsAt;
    }
  } finally {
    await crew?.end();
    await rm(folder, { recursive: true, force: true });
  }
}

function emptyTally({ name, what }: FaultKind): FaultTally {
  const zero = { rounds: 0, struck: 0, keys: 0, calls: 0, unanswered: 0, undecided: 0 };
  return { fault: name, what, ...zero, violations: [] };
}

function freshKeys(namespace: string, round: number, count: number): ProvedKey[] {
  return Array.from({ length: count }, (_, index) => {
    const key = `${round}.${index}`;
    const id = createHash("sha256").update(`${namespace} ${key}`).digest("hex");
    return { id, namespace, key };
  });
}

interface RoundPlan {
  readonly crew: Crew;
  readonly fault: FaultKind;
  readonly keys: readonly ProvedKey[];
  readonly round: number;
  readonly seed: number;
  readonly size: RunSize;
}

async function runRound({ crew, fault, keys, round, seed, size }: RoundPlan): Promise<number> {
  const { roundMs, callsPerRound, processes, leaseMs } = size;
  const until = monotonicUs() + roundMs * 1_000;
  crew.begin({ round, keys, until, mostCalls: Math.ceil(callsPerRound / processes) });
  const draws = seededDraws(seed * 31 + round);
  const struck = await fault.strike({ crew, draws, leaseMs, until });
  await crew.rested(GRACE_MS);
  return struck;
}

interface RoundCheck {
  readonly histories: ReadonlyMap<string, readonly KeyOperation[]>;
  readonly round: number;
  readonly bounds: ClockBounds;
  readonly mayBeRepeated: MayBeRepeated | undefined;
  readonly tally: FaultTally;
  readonly covered: Set<string>;
}

function checkRound({ histories, round, bounds, mayBeRepeated, tally, covered }: RoundCheck): void {
  for (const [key, history] of histories) {
    const whole = mayBeRepeated === undefined ? history : withRepetitions(history, mayBeRepeated);
    const verdict = checkKeyHistory(whole, { bounds, mostVisits: MOST_VISITS });
    tally.keys++;
    tally.unanswered += history.filter(({ answer }) => answer === undefined).length;
    for (const what of verdict.covered) covered.add(what);
    // What could not be decided proves nothing.
    if (verdict.result === "undecided") tally.undecided++;
    else tally.calls += history.length;
    if (verdict.result === "violation")
      tally.violations.push({ round, key, explanation: verdict.explanation });
  }
}
