/**
 * Hears what other connections did to the records that somebody here waits for. While anybody waits it asks SQLite, now
 * and then, whether another connection has written at all, and only then looks at the records; else it does nothing.
 */
import type { Table } from "./table.ts";

/** Asking costs some microseconds; a waiter that is woken so late did not notice. */
const EVERY_MS = 20;

export interface Lookout {
  add(ids: readonly string[]): void;
  remove(id: string): void;
  stop(): void;
}

export interface LookoutOptions {
  /** Nothing while the database is not open. */
  tableOf(): Table | undefined;
  /** Told of ids that are no longer pending. */
  wake(ids: readonly string[]): void;
  /** Takes each look, or leaves it. */
  around?(look: () => void): void;
}

export function createLookout({ tableOf, wake, around = (look) => look() }: LookoutOptions): Lookout {
  const watched = new Set<string>();
  let lastVersion: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    const table = tableOf();
    const version = table?.dataVersion();
    if (table === undefined || version === lastVersion) return;
    lastVersion = version;
    const moved = [...watched].filter((id) => !table.isPending(id));
    if (moved.length > 0) wake(moved);
  }

  function turn(): void {
    timer = undefined;
    try {
      around(look);
    } catch {
      // A file that cannot be read just now is looked at again; whoever waits also asks by itself.
    }
    arm();
  }

  function arm(): void {
    if (timer !== undefined || watched.size === 0) return;
    timer = setTimeout(turn, EVERY_MS);
    timer.unref();
  }

  return {
    add(ids) {
      // The first look compares with nothing, so it looks at the records: what came before it is not missed.
      if (watched.size === 0) lastVersion = undefined;
      for (const id of ids) watched.add(id);
      arm();
    },
    remove: (id) => void watched.delete(id),
    stop() {
      watched.clear();
      clearTimeout(timer);
    },
  };
}
