/** Runs an import: pages of the source, each written with many calls at once, and a checkpoint after each. */
import type { Bar } from "../terminal.ts";
import type { ImportCheckpoint } from "./checkpoint.ts";
import { type ImportCounts, type ImportProblem, NO_COUNTS } from "./counts.ts";
import { type Mapping, mapKey } from "./mapping.ts";
import type { Peer, PeerOptions } from "./peer.ts";
import type { Source, SourceEntry } from "./source.ts";
import type { WriteAnswer, WriteKey, WrittenKey } from "./writer.ts";

/** Stores write what arrives together in one step, so many calls at once are much faster than one after the other. */
const AT_ONCE = 100;
/** So many problems are reported by name; all are counted. */
const MOST_PROBLEMS = 20;

export interface ImportRun {
  readonly source: Source;
  readonly peer: Peer;
  readonly peerOptions: PeerOptions;
  readonly mapping: Mapping;
  /** For keys that never expire at the source. */
  readonly retentionMs: number;
  readonly hasFingerprints: boolean;
  readonly write: WriteKey;
  readonly checkpoint: ImportCheckpoint;
  readonly bar: Bar;
  readonly signal: AbortSignal;
}

export interface ImportReport {
  readonly counts: ImportCounts;
  readonly problems: readonly ImportProblem[];
  readonly isStopped: boolean;
}

export async function runImport(run: ImportRun): Promise<ImportReport> {
  const { source, checkpoint, bar, signal } = run;
  const counts: ImportCounts = { ...NO_COUNTS, ...checkpoint.start?.counts };
  const problems: ImportProblem[] = [];
  let after = checkpoint.start?.after;
  for (;;) {
    const { entries, next, position } = await source.page(after);
    await importEntries(run, entries, counts, problems);
    bar.at(position, `${counts.imported} imported`);
    if (next === undefined) break;
    after = next;
    // Only now: every key before this position is in the store.
    checkpoint.save(next, counts);
    if (signal.aborted) return { counts, problems, isStopped: true };
  }
  checkpoint.remove();
  return { counts, problems, isStopped: false };
}

async function importEntries(
  run: ImportRun,
  entries: readonly SourceEntry[],
  counts: ImportCounts,
  problems: ImportProblem[],
): Promise<void> {
  const waiting = [...entries];
  async function work(): Promise<void> {
    for (let entry = waiting.shift(); entry !== undefined; entry = waiting.shift()) {
      const answer = await importEntry(run, entry);
      counts.read += 1;
      counts[COUNTED[answer.status]] += 1;
      if (answer.status === "refused" && problems.length < MOST_PROBLEMS)
        problems.push({ key: entry.key, reason: answer.reason });
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

type EntryAnswer = WriteAnswer | { readonly status: "unfinished" | "expired" | "not-recognized" };

const COUNTED = {
  imported: "imported",
  "already-there": "alreadyThere",
  different: "different",
  busy: "busy",
  unfinished: "unfinished",
  expired: "expired",
  "not-recognized": "notRecognized",
  refused: "refused",
} as const satisfies Record<EntryAnswer["status"], keyof ImportCounts>;

async function importEntry(run: ImportRun, entry: SourceEntry): Promise<EntryAnswer> {
  const { peer, peerOptions, mapping, retentionMs, hasFingerprints, write } = run;
  const read = peer.read(entry, peerOptions);
  if (read.status !== "completed") return read;
  const mapped = mapKey(mapping, entry.key, read.fields);
  if ("reason" in mapped) return { status: "refused", reason: mapped.reason };
  const key: WrittenKey = {
    ...mapped,
    outcome: read.outcome,
    ...(hasFingerprints && read.meaning !== undefined && { meaning: read.meaning }),
    retentionMs: Math.max(1, Math.floor(read.leftMs ?? retentionMs)),
  };
  return write(key);
}
