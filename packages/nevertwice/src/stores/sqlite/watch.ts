/**
 * Notices changes that other connections make to watched records. While records are watched, it asks SQLite every few
 * milliseconds whether another connection has committed anything, and reads the watched records only then.
 */
import type { RecordTable } from "./records.ts";

/** One check takes a few microseconds, and a delay this short is not noticeable to a waiter. */
const CHECK_EVERY_MS = 20;

export interface SqliteWatch {
  add(ids: readonly string[]): void;
  remove(id: string): void;
  stop(): void;
}

export interface RecordWatchOptions {
  /** Undefined while the database is not open. */
  table(): RecordTable | undefined;
  /** Called with the ids that are no longer pending. */
  wake(ids: readonly string[]): void;
  /** Runs each check, or skips it. Default: runs it. */
  runCheck?(check: () => void): void;
}

export function createRecordWatch(options: RecordWatchOptions): SqliteWatch {
  const { table: openTable, wake, runCheck = (run) => run() } = options;
  const watched = new Set<string>();
  let lastVersion: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  function check(): void {
    const table = openTable();
    const version = table?.dataVersion();
    if (table === undefined || version === lastVersion) return;
    lastVersion = version;
    const settled = [...watched].filter((id) => !table.isPending(id));
    if (settled.length > 0) wake(settled);
  }

  function onTimer(): void {
    timer = undefined;
    try {
      runCheck(check);
    } catch {
      // If the file cannot be read now, the next check tries again. Waiters also poll by themselves.
    }
    schedule();
  }

  function schedule(): void {
    if (timer !== undefined || watched.size === 0) return;
    timer = setTimeout(onTimer, CHECK_EVERY_MS);
    timer.unref();
  }

  return {
    add(ids) {
      // With no last version, the first check reads the records: a change made before it is not missed.
      if (watched.size === 0) lastVersion = undefined;
      for (const id of ids) watched.add(id);
      schedule();
    },
    remove: (id) => void watched.delete(id),
    stop() {
      watched.clear();
      clearTimeout(timer);
    },
  };
}
