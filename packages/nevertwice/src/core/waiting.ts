/**
 * Waiting for another attempt's claim to end. Everybody in this process who waits for one record shares one
 * subscription and one look at it; when it moved they all claim again, so that fingerprint and owner are judged anew
 * and nobody is answered from a bare read.
 */
import { bounded, type Caller } from "./calls.ts";

/** How often to look where the store cannot push. */
const POLL_FIRST_MS = 20;
const SHORTEST_SLEEP_MS = 5;
const POLL_GROWTH = 1.6;
const POLL_LONGEST_MS = 1_000;
/** How often to look although the store pushes, in case a push was lost. */
const POLL_PUSHED_MS = 5_000;

export interface WaitRequest {
  readonly id: string;
  /** The lease that was left when the claim was refused. */
  readonly leaseLeftMs: number;
  /** Wait no longer than this, and not less than that: so that no store can keep a caller asking without pause. */
  readonly longestMs: number;
  readonly leastMs: number;
  readonly storeTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface Waiting {
  /** Resolves when it is worth claiming again, when the time is up, or when the caller is gone. */
  wait(request: WaitRequest): Promise<void>;
  wakeAll(): void;
}

interface Watched {
  readonly sleepers: Set<() => void>;
  wake(): void;
  /** Called once somebody sleeps: a store may wake at once. */
  start(): void;
}

export function createWaiting(caller: Caller, random: () => number): Waiting {
  const { store, timer } = caller;
  const watched = new Map<string, Watched>();

  /** One look-out for one record, until it moves or nobody is left who waits. */
  function lookOut({ id, leaseLeftMs, storeTimeoutMs }: WaitRequest): Watched {
    const sleepers = new Set<() => void>();
    let unwatch: (() => void) | undefined;
    let cancel = () => {};
    let pollMs = store.watch === undefined ? POLL_FIRST_MS : POLL_PUSHED_MS;
    let leaseEndsAt = timer.now() + leaseLeftMs;
    let isOver = false;

    function wake(): void {
      if (isOver) return;
      isOver = true;
      watched.delete(id);
      cancel();
      unwatch?.();
      for (const rouse of sleepers) rouse();
    }

    async function look(): Promise<void> {
      try {
        const record = await bounded(caller, storeTimeoutMs, (bound) => store.read(id, bound));
        if (record?.state !== "pending") return wake();
        leaseEndsAt = timer.now() + record.leaseLeftMs;
      } catch {
        // A store that cannot answer now may answer the next look; each sleeper's own deadline bounds this.
      }
      sleep();
    }

    function sleep(): void {
      if (isOver) return;
      const jittered = pollMs * (0.5 + random());
      if (store.watch === undefined) pollMs = Math.min(POLL_LONGEST_MS, pollMs * POLL_GROWTH);
      // Never without a pause: the store's clock may see the lease end later than ours.
      const leaseLeft = Math.max(SHORTEST_SLEEP_MS, leaseEndsAt - timer.now());
      cancel = timer.after(Math.min(jittered, leaseLeft), () => void look());
    }

    async function start(): Promise<void> {
      if (store.watch === undefined) return look();
      try {
        // Subscribe before the look: what happens between the refused claim and the subscription is seen by the look.
        const watch = store.watch.bind(store);
        const end = await bounded(
          caller,
          storeTimeoutMs,
          () => watch({ id, wake }),
          (late) => late(),
        );
        if (isOver) return end();
        unwatch = end;
      } catch {
        pollMs = POLL_LONGEST_MS;
      }
      if (!isOver) await look();
    }

    return { sleepers, wake, start: () => void start() };
  }

  return {
    wait(request) {
      const { id, longestMs, leastMs, signal } = request;
      if (signal?.aborted) return Promise.resolve();
      const isFirst = !watched.has(id);
      const lookout = watched.get(id) ?? lookOut(request);
      watched.set(id, lookout);
      const { sleepers, wake, start } = lookout;
      const earliest = timer.now() + leastMs;
      return new Promise((resolve) => {
        const rouse = () => {
          cancel();
          signal?.removeEventListener("abort", rouse);
          sleepers.delete(rouse);
          if (sleepers.size === 0) wake();
          const earlyMs = earliest - timer.now();
          if (earlyMs > 0 && !signal?.aborted) timer.after(earlyMs, resolve);
          else resolve();
        };
        const cancel = timer.after(longestMs, rouse);
        signal?.addEventListener("abort", rouse);
        sleepers.add(rouse);
        if (isFirst) start();
      });
    },
    wakeAll() {
      for (const record of [...watched.values()]) record.wake();
    },
  };
}
