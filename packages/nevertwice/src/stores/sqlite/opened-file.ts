/** The file that a worker thread has opened, as other threads of the process can recognise it. */
import { statSync } from "node:fs";

export interface OpenedFile {
  readonly identity: string;
  /** The location of the driver (`SqliteDriver`). */
  readonly driver: string | undefined;
}

/** Stays the same as long as the path leads to the same file. */
export function fileIdentity(file: string): string {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return `${stats?.dev} ${stats?.ino}`;
}
