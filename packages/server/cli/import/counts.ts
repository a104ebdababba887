/** What an import did, in numbers and in words. */
import { paint } from "../terminal.ts";

export interface ImportCounts {
  /** Entries that were read from the source. */
  read: number;
  imported: number;
  /** The store had the same outcome. */
  alreadyThere: number;
  /** The store has another outcome, which stays. */
  different: number;
  /** Their work runs in the store's own application, or its outcome is unknown there. */
  busy: number;
  /** Their work was not finished at the source. */
  unfinished: number;
  expired: number;
  /** Entries of other programs. */
  notRecognized: number;
  refused: number;
}

export const NO_COUNTS: ImportCounts = {
  read: 0,
  imported: 0,
  alreadyThere: 0,
  different: 0,
  busy: 0,
  unfinished: 0,
  expired: 0,
  notRecognized: 0,
  refused: 0,
};

/** A key that was not imported, and why. */
export interface ImportProblem {
  readonly key: string;
  readonly reason: string;
}

/** Whether every completed key of the source is recognised now. */
export function isComplete({ different, busy, refused }: ImportCounts): boolean {
  return different + busy + refused === 0;
}

const LABELS: readonly (readonly [name: keyof ImportCounts, label: string])[] = [
  ["read", "read"],
  ["imported", "imported"],
  ["alreadyThere", "already there"],
  ["different", "have another outcome in the store, which stays"],
  ["busy", "are in use in the store: import again when their work has ended"],
  ["unfinished", "were not finished at the source, and are not imported"],
  ["expired", "had expired"],
  ["notRecognized", "entries are not of this library"],
  ["refused", "refused"],
];

export function countLines(counts: ImportCounts, isDryRun: boolean): readonly string[] {
  const shown = LABELS.filter(([name]) => counts[name] > 0 || name === "read" || name === "imported");
  const width = Math.max(...shown.map(([name]) => String(counts[name]).length));
  return shown.map(([name, label]) => {
    const text = name === "imported" && isDryRun ? "would be imported" : label;
    return `${String(counts[name]).padStart(width)}  ${text}`;
  });
}

export function verdictLine(
  counts: ImportCounts,
  { isDryRun, isStopped }: { isDryRun: boolean; isStopped: boolean },
): string {
  if (isStopped) return paint("yellow", "stopped: run the same command again to continue");
  if (!isComplete(counts)) return paint("red", "not complete: some keys were not imported");
  return paint(
    "green",
    isDryRun ? "dry run: nothing was written" : "complete: every finished key is recognised",
  );
}
