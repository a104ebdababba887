/** Removes expired records in the background, a few at a time: gently at first, and faster while there is a backlog. */

import { canShareAcrossCalls } from "#platform";
import { weakly } from "./clock.ts";
import type { Ports } from "./ports.ts";
import { unavailable } from "./result.ts";
import type { PurgeReport } from "./store.ts";
import { callWithin } from "./store-call.ts";

/** Records removed by one call of the store. */
const BATCH = 500;
/** The limit for one purge. The next one continues at once if more is left, so that a backlog is always worked off. */
const MAX_BATCHES = 1_000;

export interface Purger {
  /** Called by every call of a guard. The first one starts the timer; creating a guard starts none. */
  used(): void;
  run(): Promise<void>;
  /** Purges now and returns how many records it removed. Throws `unavailable` if the store does not answer. */
  purge(): Promise<number>;
  stop(): void;
}

interface PurgeEnd {
  readonly removed: number;
  /** How long to pause before the next batch, if something is left; undefined if nothing is. */
  readonly leftAfterMs: number | undefined;
}

/** Failures in the background are ignored: an expired record counts as absent whether or not it was purged. */
export function createPurger(ports: Ports, everyMs: number, storeTimeoutMs: number): Purger {
  const { store, timer, random, emit } = ports;
  // A timer that ends with the call that set it would never purge: there, the application calls `guard.purge()`.
  let isArmed = everyMs === 0 || !canShareAcrossCalls;
  let isStopped = false;
  let cancel = () => {};
  const pauses = new Set<() => void>();
  const pace = createPace();

  async function purge(isBackground: boolean): Promise<PurgeEnd> {
    let removed = 0;
    let leftAfterMs: number | undefined;
    let startedAt = timer.now();
    try {
      for (let batches = 1; !isStopped; batches++) {
        startedAt = timer.now();
        const report = await callWithin(ports, storeTimeoutMs, (deadline) => store.purge(BATCH, deadline));
        removed += report.removed;
        const pauseMs = pace.pauseMs(timer.now() - startedAt, report);
        if (!report.more) break;
        if (batches === MAX_BATCHES) {
          leftAfterMs = pauseMs;
          break;
        }
        await rest(pauseMs, isBackground);
      }
    } catch (error) {
      const waitedMs = Math.round(timer.now() - startedAt);
      throw unavailable(error, { waitedMs, advice: "The next purge continues." });
    } finally {
      if (removed > 0) emit?.({ kind: "purged", removed });
    }
    return { removed, leftAfterMs };
  }

  async function purgeAndArm(): Promise<void> {
    // The next purge tries again.
    const end = await purge(true).catch(() => undefined);
    // A store may have more to look at, and nothing to remove.
    if (end?.leftAfterMs !== undefined && end.removed > 0) armAfter(end.leftAfterMs);
    else arm();
  }

  /** A caller that waits for its purge keeps the process alive. Ends early if the purger stops. */
  function rest(ms: number, isBackground: boolean): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancelTimer();
        pauses.delete(end);
        resolve();
      };
      const cancelTimer = timer.after(ms, end, isBackground);
      pauses.add(end);
    });
  }

  function arm(): void {
    // With jitter, so that the processes on one store do not purge at the same moment.
    armAfter(everyMs * (0.5 + random()));
  }

  function armAfter(ms: number): void {
    if (!isStopped) cancel = timer.after(ms, weakly(purging), true);
  }

  const purging: Purger = {
    used() {
      if (isArmed) return;
      isArmed = true;
      arm();
    },
    run: purgeAndArm,
    purge: async () => (await purge(false)).removed,
    stop() {
      isStopped = true;
      cancel();
      for (const end of pauses) end();
    },
  };
  return purging;
}

/** After a batch the purge pauses for so many times as long as the batch took, so that claims have the store. */
const LONGEST_PAUSE = 4;
/** With a backlog it purges half of the time. */
const SHORTEST_PAUSE = 1;
/** By how much each batch that shows a backlog shortens the pauses. */
const FASTER = 0.9;
/** A batch that removes fewer records shows no backlog. */
const BACKLOG = 100;
/** A batch that takes so many times as long for a record as the fastest ones shows that the store is busy with claims. */
const SLOWED = 2;
/** By how much the fastest batch is forgotten with each batch: the store may have become slower for good. */
const FORGOTTEN = 1.02;

/** How long to pause after each batch: less while there is a backlog, and more again while the store is busy. */
function createPace(): { pauseMs(tookMs: number, report: PurgeReport): number } {
  let pause = LONGEST_PAUSE;
  let fastest = Number.POSITIVE_INFINITY;
  return {
    pauseMs(tookMs, { removed, more }) {
      if (!more || removed < BACKLOG) pause = LONGEST_PAUSE;
      else {
        const each = tookMs / removed;
        fastest = Math.min(fastest * FORGOTTEN, each);
        pause =
          each > SLOWED * fastest
            ? Math.min(LONGEST_PAUSE, pause * 2)
            : Math.max(SHORTEST_PAUSE, pause * FASTER);
      }
      return pause * tookMs;
    },
  };
}
