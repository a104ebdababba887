/** The position of an import in a small file, so that a long one continues where it was interrupted. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { UsageError } from "../command.ts";
import type { ImportCounts } from "./counts.ts";

/** What the import is about. A position of another import is worthless, and would skip keys. */
export type ImportSubject = Readonly<Record<string, string | undefined>>;

interface Saved {
  readonly subject: ImportSubject;
  readonly after: string;
  readonly counts: ImportCounts;
}

export interface ImportCheckpoint {
  /** Where an earlier run stopped. */
  readonly start: { readonly after: string; readonly counts: ImportCounts } | undefined;
  save(after: string, counts: ImportCounts): void;
  /** The import is complete. */
  remove(): void;
}

/** For an import that keeps no position. */
export const NO_CHECKPOINT: ImportCheckpoint = { start: undefined, save() {}, remove() {} };

export function openCheckpoint(file: string | undefined, subject: ImportSubject): ImportCheckpoint {
  if (file === undefined) return NO_CHECKPOINT;
  const start = existsSync(file) ? readSaved(file, subject) : undefined;
  return {
    start,
    save(after, counts) {
      const saved: Saved = { subject, after, counts };
      // A process that is killed here leaves the earlier position, never half of a new one.
      writeFileSync(`${file}.new`, JSON.stringify(saved));
      renameSync(`${file}.new`, file);
    },
    remove: () => rmSync(file, { force: true }),
  };
}

function readSaved(file: string, subject: ImportSubject): Saved {
  let saved: Saved;
  try {
    saved = JSON.parse(readFileSync(file, "utf8")) as Saved;
  } catch (cause) {
    throw new UsageError(`${file} is not the checkpoint of an import.`, { cause });
  }
  if (JSON.stringify(saved.subject) !== JSON.stringify(JSON.parse(JSON.stringify(subject))))
    throw new UsageError(
      `${file} belongs to an import with another source, store or mapping; remove it, or name another file.`,
    );
  return saved;
}
