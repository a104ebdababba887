/** Counts the work that has started and not ended, limits how much runs at once, and waits for its end. */
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { wholeFrom } from "../core/option-checks.ts";

export interface DrainOptions {
  /** How long to wait for started work. Default: 30,000. */
  readonly drainMs?: number | undefined;
}

export interface Drained {
  /** How many had not ended by then. They continue, and the broker sends their messages again if it gets no verdict. */
  readonly unfinished: number;
}

export interface InFlightWork {
  /** `work` must never reject. `places` is how many places it occupies. Default: 1. */
  begin(work: () => Promise<unknown>, places?: number): void;
  /** How many more places are free. */
  free(): number;
  /** Resolves once a place is free, or after `stop`. */
  room(): Promise<void>;
  /** From now on nothing is started. */
  stop(): void;
  isStopped(): boolean;
  /** Resolves once all started work has ended. */
  idle(): Promise<void>;
  /** Waits for `first`, however it ends, and then for all started work, up to `drainMs`. */
  drain(first: Promise<unknown>, options?: DrainOptions): Promise<Drained>;
}

const DRAIN_MS = 30_000;

export function createInFlightWork(most: number = Number.POSITIVE_INFINITY): InFlightWork {
  let count = 0;
  let stopped = false;
  let waiting: (() => void)[] = [];

  function wake(): void {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  }

  async function until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
      });
    }
  }

  const idle = () => until(() => count === 0);

  return {
    begin(work, places = 1) {
      count += places;
      void work().then(() => {
        count -= places;
        wake();
      });
    },
    free: () => most - count,
    room: () => until(() => stopped || count < most),
    stop() {
      stopped = true;
      wake();
    },
    isStopped: () => stopped,
    idle,
    async drain(first, options) {
      await waitForDrain(first.then(idle, idle), options);
      return { unfinished: count };
    },
  };
}

/** Waits for `ended`, but at most for `drainMs`. */
export async function waitForDrain(
  ended: Promise<unknown>,
  { drainMs = DRAIN_MS }: DrainOptions = {},
): Promise<void> {
  wholeFrom(0)("drainMs", drainMs);
  const waited = new AbortController();
  await Promise.race([ended, pause(systemTimer, drainMs, waited.signal)]);
  waited.abort();
}
