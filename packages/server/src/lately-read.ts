/**
 * Values of the store for metrics, by namespace. They are read one namespace at a time and at most every few seconds, and no
 * collection of metrics waits long for them: a value that a slow or unreachable store does not give is left out.
 */
import { atMost } from "./at-most.ts";

export interface LatelyRead<T> {
  /** A namespace is missing if its value could not be read lately. Never rejects. */
  read(namespaces: readonly string[]): Promise<ReadonlyMap<string, T>>;
}

/** Values that are older than this are read again. */
const FRESH_MS = 5_000;
/** Values that are older than this are not shown, unless the last reads took so long. */
const SHOWN_MS = 30_000;
/** How long one collection of metrics waits for newer values. */
const WAIT_MS = 250;
/** Between two reads the store has this many times as long for other work as the last reads took. */
const PAUSE = 20;

/** `readOne` returns undefined if there is no value. `now` is a monotonic clock in milliseconds. */
export function createLatelyRead<T>(
  readOne: (namespace: string) => Promise<T | undefined> | undefined,
  now: () => number = () => performance.now(),
): LatelyRead<T> {
  const known = new Map<string, { readonly value: T; readonly at: number }>();
  const triedAt = new Map<string, number>();
  let reading: Promise<void> | undefined;
  let freshMs = FRESH_MS;

  function isDue(namespace: string): boolean {
    const at = triedAt.get(namespace);
    return at === undefined || now() - at >= freshMs;
  }

  async function readAll(namespaces: readonly string[]): Promise<void> {
    const startedAt = now();
    for (const namespace of namespaces) {
      triedAt.set(namespace, now());
      try {
        const value = await readOne(namespace);
        if (value !== undefined) known.set(namespace, { value, at: now() });
      } catch {
        // A later collection tries again. The routes about the same records report what is wrong.
      }
    }
    freshMs = Math.max(FRESH_MS, PAUSE * (now() - startedAt));
  }

  return {
    async read(namespaces) {
      const shownMs = Math.max(SHOWN_MS, 2 * freshMs);
      for (const [namespace, { at }] of known) if (now() - at >= shownMs) known.delete(namespace);
      const due = namespaces.filter(isDue);
      if (due.length > 0) {
        reading ??= readAll(due).finally(() => {
          reading = undefined;
        });
        await atMost(WAIT_MS, reading);
      }
      return new Map(
        namespaces.flatMap((namespace) => {
          const found = known.get(namespace);
          return found === undefined ? [] : [[namespace, found.value] as const];
        }),
      );
    },
  };
}
