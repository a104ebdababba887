/** Removes what is past its time, in small bites, in the background. */
import { bounded } from "./calls.ts";
import type { Ports } from "./ports.ts";

const BITE = 500;
/** So that no store, however far behind, keeps a purge going until the next one is due. */
const MAX_BITES = 1_000;
/** Between two bites it rests for so many times as long as the last one took: claims have the store to themselves. */
const REST = 4;

/** The answer ends it. Failures are dropped: an expired record is absent whether or not it was purged. */
export function startPurging(ports: Ports, everyMs: number, storeTimeoutMs: number): () => void {
  const { store, timer, random, emit } = ports;
  let isStopped = false;
  let cancel = () => {};

  async function purge(): Promise<void> {
    let removed = 0;
    try {
      for (let bites = 0; bites < MAX_BITES && !isStopped; bites++) {
        const startedAt = timer.now();
        const report = await bounded(ports, storeTimeoutMs, (bound) => store.purge(BITE, bound));
        removed += report.removed;
        if (!report.more) break;
        await rest(REST * (timer.now() - startedAt));
      }
    } catch {
      // The next purge tries again.
    }
    if (removed > 0) emit?.({ kind: "purged", removed });
    arm();
  }

  function rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      cancel = timer.after(ms, resolve, true);
    });
  }

  function arm(): void {
    if (isStopped || everyMs === 0) return;
    // Jittered, so that many processes on one store do not purge as one.
    cancel = timer.after(everyMs * (0.5 + random()), () => void purge(), true);
  }

  arm();
  return () => {
    isStopped = true;
    cancel();
  };
}
