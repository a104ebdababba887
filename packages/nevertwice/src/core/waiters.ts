/**
 * Calls that wait for another attempt's claim to end. All waiters of one record in this process share one subscription
 * and one read. When the record changes they all claim again, so that the store checks fingerprint and owner of each:
 * no call is answered from a read alone. Where calls may not share anything, each has its own subscription and read.
 */
import { canShareAcrossCalls } from "#platform";
import type { Call } from "./request.ts";
import { callWithin, type TimedStore } from "./store-call.ts";

/** How often to read the record if the store cannot push. */
const POLL_FIRST_MS = 20;
const SHORTEST_SLEEP_MS = 5;
const POLL_GROWTH = 1.6;
const POLL_LONGEST_MS = 1_000;
/** How often to read the record if the store pushes: with the jitter, a push that is lost costs at most a second. */
const POLL_PUSHED_MS = 650;

export interface WaitRequest {
  readonly id: string;
  /** How much of the lease was left when the claim was refused. */
  readonly leaseLeftMs: number;
  /** The longest and the shortest wait. The shortest keeps a waiter from claiming without a pause. */
  readonly longestMs: number;
  readonly leastMs: number;
  readonly storeTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface Waiters {
  /** Resolves when it is worth claiming again, when the time is up, or when the caller cancels. */
  wait(request: WaitRequest): Promise<void>;
  wakeAll(): void;
}

interface RecordWatch {
  readonly waiters: Set<() => void>;
  wake(): void;
  /** Called after the first waiter is registered: the store may wake it immediately. */
  start(): void;
}

export function createWaiters(timed: TimedStore, random: () => number): Waiters {
  const { store, timer } = timed;
  const watched = new Map<string, RecordWatch>();

  /** Watches one record until it changes or no waiter is left. */
  function watchRecord({ id, leaseLeftMs, storeTimeoutMs }: WaitRequest): RecordWatch {
    const waiters = new Set<() => void>();
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
      for (const wakeOne of waiters) wakeOne();
    }

    async function look(): Promise<void> {
      try {
        const record = await callWithin(timed, storeTimeoutMs, (deadline) => store.read(id, deadline));
        if (record?.state !== "pending") return wake();
        leaseEndsAt = timer.now() + record.leaseLeftMs;
      } catch {
        // The store may answer the next read. Each waiter stops at its own deadline.
      }
      sleep();
    }

    function sleep(): void {
      if (isOver) return;
      const jittered = pollMs * (0.5 + random());
      if (store.watch === undefined) pollMs = Math.min(POLL_LONGEST_MS, pollMs * POLL_GROWTH);
      // Always with a pause: by the store's clock the lease may end later than by ours.
      const leaseLeft = Math.max(SHORTEST_SLEEP_MS, leaseEndsAt - timer.now());
      cancel = timer.after(Math.min(jittered, leaseLeft), () => void look());
    }

    async function start(): Promise<void> {
      if (store.watch === undefined) return look();
      try {
        // Subscribe first, then read: the read sees a change between the refused claim and the subscription.
        const subscribe = store.watch.bind(store);
        const end = await callWithin(
          timed,
          storeTimeoutMs,
          () => subscribe({ id, wake }),
          (late) => late(),
        );
        if (isOver) return end();
        unwatch = end;
      } catch {
        pollMs = POLL_LONGEST_MS;
      }
      if (!isOver) await look();
    }

    return { waiters, wake, start: () => void start() };
  }

  return {
    wait(request) {
      const { id, longestMs, leastMs, signal } = request;
      if (signal?.aborted) return Promise.resolve();
      const isFirst = !watched.has(id);
      const watch = watched.get(id) ?? watchRecord(request);
      if (canShareAcrossCalls) watched.set(id, watch);
      const { waiters, wake, start } = watch;
      const earliest = timer.now() + leastMs;
      return new Promise((resolve) => {
        const resume = () => {
          cancel();
          signal?.removeEventListener("abort", resume);
          waiters.delete(resume);
          if (waiters.size === 0) wake();
          const earlyMs = earliest - timer.now();
          if (earlyMs > 0 && !signal?.aborted) timer.after(earlyMs, resolve);
          else resolve();
        };
        const cancel = timer.after(longestMs, resume);
        signal?.addEventListener("abort", resume);
        waiters.add(resume);
        if (isFirst) start();
      });
    },
    wakeAll() {
      for (const record of [...watched.values()]) record.wake();
    },
  };
}

/** The place of a call among those that wait. */
export interface Seat {
  /** False if the call must not wait. */
  take(): boolean;
  leave(): void;
}

/** Undefined if the call may wait whenever its policy says so. */
export function createSeat({
  identity,
  policy,
  takeSeat,
}: Pick<Call, "identity" | "policy" | "takeSeat">): Seat | undefined {
  if (takeSeat === undefined) return undefined;
  let leave: (() => void) | undefined;
  return {
    take() {
      leave ??= takeSeat(identity.id, policy.waitMs);
      return leave !== undefined;
    },
    leave: () => leave?.(),
  };
}
