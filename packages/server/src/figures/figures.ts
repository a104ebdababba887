/** The figures of all servers on the store over the last 24 hours: what this server counts, and what all of them wrote. */
import type { GuardEvent, Store } from "nevertwice";
import { createFiguresReader, type DayFigures } from "./figures-reader.ts";
import { createFiguresGuard } from "./figures-row.ts";
import { createFiguresWriter } from "./figures-writer.ts";
import { COUNTED, countedAs, type Door } from "./tally.ts";

export interface SharedFigures {
  /** An observer for the guards and claims of a namespace. */
  observer(namespace: string, door: Door): (event: GuardEvent) => void;
  /** What has reached the store, at most a few seconds ago. Never rejects. */
  read(): Promise<DayFigures>;
  /** Writes what was counted so far. Never rejects. */
  flush(): Promise<void>;
  /** Writes what was counted, waits up to `drainMs` for the store, at most half a second, and stops. */
  end(): Promise<void>;
}

const FLUSH_EVERY_MS = 10_000;

/** How long the last figures may take to be written. */
const LAST_WRITE_MS = 500;

export function createFigures(options: {
  readonly store: Store;
  readonly drainMs?: number | undefined;
  /** Converts an operation to a name without concrete paths. */
  readonly label: (operation: string) => string;
}): SharedFigures {
  const { store, drainMs = LAST_WRITE_MS, label } = options;
  // `end` has waited for the store when the guard is closed, and the guard need not wait again.
  const guard = createFiguresGuard(store, 1);
  const writer = createFiguresWriter(guard);
  const reader = createFiguresReader(guard);
  const timer = setInterval(() => void writer.flush(), FLUSH_EVERY_MS);
  timer.unref();

  return {
    observer: (namespace, door) => (event) => {
      const counted = countedAs(event);
      if (counted === undefined || !("operation" in event)) return;
      const counts = COUNTED.map((name) => (name === counted ? 1 : 0));
      writer.count({ namespace, door, operation: label(event.operation), counts });
    },
    read: () => reader.read(),
    flush: () => writer.flush(),
    async end() {
      clearInterval(timer);
      await Promise.race([writer.end(), longestWait()]);
      await guard.close();
    },
  };

  /** A store that hangs must not keep the server from stopping, and all else that is counted was written before. */
  async function longestWait(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, Math.min(drainMs, LAST_WRITE_MS)).unref());
  }
}
