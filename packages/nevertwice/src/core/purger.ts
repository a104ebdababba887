/** Removes expired records in the background, a few at a time. */

import { weakly } from "./clock.ts";
import type { Ports } from "./ports.ts";
import { callWithin } from "./store-call.ts";

/** Records removed by one call of the store. */
const BATCH = 500;
/** The limit for one purge, so that it always ends before the next one is due. */
const MAX_BATCHES = 1_000;
/** After each batch the purge pauses for this many times as long as the batch took, so that claims have the store. */
const PAUSE_FACTOR = 4;

export interface Purger {
  /** Called by every call of a guard. The first one starts the timer; creating a guard starts none. */
  used(): void;
  run(): Promise<void>;
  stop(): void;
}

/** Failures are ignored: an expired record counts as absent whether or not it was purged. */
export function createPurger(ports: Ports, everyMs: number, storeTimeoutMs: number): Purger {
  const { store, timer, random, emit } = ports;
  let isArmed = everyMs === 0;
  let isStopped = false;
  let cancel = () => {};

  async function purge(): Promise<void> {
    let removed = 0;
    try {
      for (let batches = 0; batches < MAX_BATCHES && !isStopped; batches++) {
        const startedAt = timer.now();
        const report = await callWithin(ports, storeTimeoutMs, (deadline) => store.purge(BATCH, deadline));
        removed += report.removed;
        if (!report.more) break;
        await rest(PAUSE_FACTOR * (timer.now() - startedAt));
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
    if (isStopped) return;
    // With jitter, so that the processes on one store do not purge at the same moment.
    cancel = timer.after(everyMs * (0.5 + random()), weakly(purging), true);
  }

  const purging: Purger = {
    used() {
      if (isArmed) return;
      isArmed = true;
      arm();
    },
    run: purge,
    stop() {
      isStopped = true;
      cancel();
    },
  };
  return purging;
}
