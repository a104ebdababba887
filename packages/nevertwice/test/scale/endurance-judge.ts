/**
 * Judges a long trial: by the effects and answers that its processes noted, what was read back from the store, and by how the
 * figures of the last quarter differ from those of the second.
 */
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { count, medianOf } from "./figures.ts";

/** One line of a process's notes. Times are microseconds of the monotonic clock. */
export type EnduranceNote =
  | readonly [kind: "effect", key: string, value: string, at: number]
  | readonly [kind: "answer", key: string, status: string, value: string, sentAt: number, ms: number]
  | readonly [kind: "sample", at: number, heapBytes: number, descriptors: number];

export interface EnduringProcess {
  readonly notes: readonly EnduranceNote[];
  readonly wasKilled: boolean;
}

export interface EffectsVerdict {
  readonly calls: number;
  readonly effects: number;
  readonly replays: number;
  /** Keys whose outcome a caller was given as recorded. */
  readonly acknowledged: number;
  /** Effects of a killed process that nobody was told of, and that therefore happened again. */
  readonly repeatedAfterKill: number;
  readonly duplicates: readonly string[];
  /** Answers that no correct store and guard give: an outcome without an effect, or a refusal without a reason. */
  readonly wrongAnswers: readonly string[];
  readonly refused: number;
}

export interface Acknowledged {
  readonly value: string;
  /** The end of the effect's retention is at least `retentionMs` after this. */
  readonly effectAt: number;
}

interface KnownEffect {
  readonly value: string;
  readonly at: number;
  readonly wasKilled: boolean;
}

const READS_AT_ONCE = 20;
/** A record that ends its retention meanwhile is not judged. */
const READ_MARGIN_US = 1_000_000;

/** A caller may be refused by these while the store is down or another caller does the work. */
const REFUSALS = ["pending", "unavailable"];
const GIVEN = ["ran", "replayed"];

function effectsByKey(processes: readonly EnduringProcess[]): Map<string, KnownEffect[]> {
  const effects = new Map<string, KnownEffect[]>();
  for (const { notes, wasKilled } of processes)
    for (const note of notes) {
      if (note[0] !== "effect") continue;
      const [, key, value, at] = note;
      const known = effects.get(key);
      if (known === undefined) effects.set(key, [{ value, at, wasKilled }]);
      else known.push({ value, at, wasKilled });
    }
  return effects;
}

/** The outcome of each key that a caller was given: the first one, should there be several. */
export function acknowledgedKeys(processes: readonly EnduringProcess[]): Map<string, Acknowledged> {
  const effects = effectsByKey(processes);
  const acknowledged = new Map<string, Acknowledged>();
  for (const { notes } of processes)
    for (const note of notes) {
      if (note[0] !== "answer") continue;
      const [, key, status, value] = note;
      if (!GIVEN.includes(status) || acknowledged.has(key)) continue;
      const effect = effects.get(key)?.find((each) => each.value === value);
      if (effect !== undefined) acknowledged.set(key, { value, effectAt: effect.at });
    }
  return acknowledged;
}

export function judgeEffects(processes: readonly EnduringProcess[], retentionMs: number): EffectsVerdict {
  const effects = effectsByKey(processes);
  const answers = processes.flatMap(({ notes }) => notes.filter((note) => note[0] === "answer"));
  const given = new Set(
    answers.filter(([, , status]) => GIVEN.includes(status)).map(([, , , value]) => value),
  );
  const duplicates: string[] = [];
  let repeatedAfterKill = 0;
  for (const [key, happened] of effects) {
    happened.sort((a, b) => a.at - b.at);
    for (const [index, before] of happened.slice(0, -1).entries()) {
      const { value, at } = happened[index + 1] as KnownEffect;
      // Past its retention a key is new. An outcome of which no caller was told may have been recorded all the same.
      if (at >= before.at + retentionMs * 1_000) continue;
      if (before.wasKilled && !given.has(before.value)) repeatedAfterKill++;
      else
        duplicates.push(
          `${key}: "${before.value}" happened, and "${value}" ${(at - before.at) / 1_000} ms later`,
        );
    }
  }
  return {
    calls: answers.length,
    effects: [...effects.values()].flat().length,
    replays: answers.filter(([, , status]) => status === "replayed").length,
    acknowledged: acknowledgedKeys(processes).size,
    repeatedAfterKill,
    duplicates,
    wrongAnswers: wrongAnswers(answers, effects),
    refused: answers.filter(([, , status]) => REFUSALS.includes(status)).length,
  };
}

type AnswerNote = Extract<EnduranceNote, readonly ["answer", ...unknown[]]>;

function wrongAnswers(answers: readonly AnswerNote[], effects: ReadonlyMap<string, KnownEffect[]>): string[] {
  const wrong: string[] = [];
  for (const [, key, status, value] of answers) {
    if (REFUSALS.includes(status)) continue;
    if (!GIVEN.includes(status) && status !== "ran, not recorded") {
      wrong.push(`${key}: a caller was told ${status}`);
      continue;
    }
    if (!effects.get(key)?.some((effect) => effect.value === value))
      wrong.push(`${key}: a caller was given "${value}", which never happened`);
  }
  return wrong;
}

/** Reads every acknowledged outcome whose retention has not ended. */
export async function readBackAll(
  store: Pick<Store, "read">,
  acknowledged: ReadonlyMap<string, Acknowledged>,
  retentionMs: number,
  now: () => number,
): Promise<{ readBack: number; lost: string[] }> {
  const isKept = ({ effectAt }: Acknowledged) => now() + READ_MARGIN_US < effectAt + retentionMs * 1_000;
  const keys = [...acknowledged].filter(([, each]) => isKept(each));
  const lost: string[] = [];
  let readBack = 0;
  let next = 0;
  async function lane(): Promise<void> {
    for (let each = keys[next++]; each !== undefined; each = keys[next++]) {
      const [key, outcome] = each;
      const { id } = toIdentity({ namespace: "endurance", scope: "", operation: "charge", key });
      const record = await store.read(id);
      if (!isKept(outcome)) continue;
      readBack++;
      if (record?.state !== "completed" || !record.outcome?.includes(JSON.stringify(outcome.value)))
        lost.push(
          `${key}: "${outcome.value}" was acknowledged, and the record is ${record?.state ?? "absent"}`,
        );
    }
  }
  await Promise.all(Array.from({ length: READS_AT_ONCE }, lane));
  return { readBack, lost };
}

/** A value that was measured again and again. */
export interface Series {
  readonly what: string;
  readonly points: readonly { readonly at: number; readonly value: number }[];
  /** How the page shows a value. */
  show(value: number): string;
}

/** When each quarter begins, and when the last one ends. */
export type Quarters = readonly [number, number, number, number, number];

export interface Drift {
  readonly what: string;
  readonly second: string;
  readonly last: string;
  /** The median of the last quarter, divided by that of the second. */
  readonly ratio: number;
  readonly atMost: number;
}

/** What the last quarter may be, as a multiple of the second. */
const AT_MOST: Readonly<Record<string, number>> = { p99: 1.25 };
const USUALLY_AT_MOST = 1.1;

export function measureDrift(series: readonly Series[], quarters: Quarters): Drift[] {
  return series.map(({ what, points, show }) => {
    const median = (from: number, to: number) =>
      medianOf(points.filter(({ at }) => at >= from && at < to).map(({ value }) => value));
    const second = median(quarters[1], quarters[2]);
    const last = median(quarters[3], quarters[4]);
    const atMost = AT_MOST[what] ?? USUALLY_AT_MOST;
    return { what, second: show(second), last: show(last), ratio: last / second, atMost };
  });
}

/** A bar for each figure that has grown too much. A figure that could not be compared misses its bar, too. */
export function missedBars(drifts: readonly Drift[]): string[] {
  return drifts
    .filter(({ ratio, atMost }) => !(ratio <= atMost))
    .map(
      ({ what, second, last, ratio, atMost }) =>
        `${what}: ${second} in the second quarter and ${last} in the last one, ${ratio.toFixed(2)} times; at most ${atMost}`,
    );
}

/** The p50 and p99 of the calls in each window: so a moment of other load on the machine spoils one window only. */
export function measureLatency(processes: readonly EnduringProcess[], windowUs: number): Series[] {
  const windows = new Map<number, number[]>();
  for (const { notes } of processes)
    for (const note of notes) {
      if (note[0] !== "answer") continue;
      const [, , , , sentAt, ms] = note;
      const window = Math.floor(sentAt / windowUs);
      const took = windows.get(window);
      if (took === undefined) windows.set(window, [ms]);
      else took.push(ms);
    }
  for (const took of windows.values()) took.sort((a, b) => a - b);
  const share = (what: string, part: number): Series => ({
    what,
    points: [...windows].map(([window, took]) => ({
      at: (window + 0.5) * windowUs,
      value: took[Math.floor(took.length * part)] ?? Number.NaN,
    })),
    show: (value) => `${value.toFixed(2)} ms`,
  });
  return [share("p50", 0.5), share("p99", 0.99)];
}

export function measureProcesses(processes: readonly EnduringProcess[]): Series[] {
  const samples = processes.flatMap(({ notes }) => notes.filter((note) => note[0] === "sample"));
  return [
    {
      what: "heap of a process",
      points: samples.map(([, at, value]) => ({ at, value })),
      show: megabytes,
    },
    {
      what: "open descriptors of a process",
      points: samples.map(([, at, , value]) => ({ at, value })),
      show: count,
    },
  ];
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(2)} MB`;
}
