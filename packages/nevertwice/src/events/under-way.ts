/** What is being worked on, so many at once, and the wait for its end. */
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { wholeFrom } from "../core/policy.ts";

export interface DrainOptions {
  /** How long what is under way is waited for; default 30,000. */
  readonly drainMs?: number | undefined;
}

export interface Drained {
  /** How many had not ended by then. They go on, and the broker sends them again if they do not get to answer it. */
  readonly unfinished: number;
}

export interface UnderWay {
  /** `work` never rejects. */
  begin(work: () => Promise<unknown>): void;
  /** Resolves once there are fewer than the most, or nothing is begun any more. */
  room(): Promise<void>;
  /** Nothing is begun any more. */
  stop(): void;
  isStopped(): boolean;
  /** Resolves once nothing is under way. */
  idle(): Promise<void>;
  /** Waits for `first` too, however it ends. */
  drain(first: Promise<unknown>, options?: DrainOptions): Promise<Drained>;
}

const DRAIN_MS = 30_000;

export function createUnderWay(most: number = Number.POSITIVE_INFINITY): UnderWay {
  let count = 0;
  let stopped = false;
  let waiting: (() => void)[] = [];

  function wake(): void {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  }

  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
      });
    }
  }

  const idle = () => until(() => count === 0);

  return {
    begin(work) {
      count++;
      void work().then(() => {
        count--;
        wake();
      });
    },
    room: () => until(() => stopped || count < most),
    stop() {
      stopped = true;
      wake();
    },
    isStopped: () => stopped,
    idle,
    async drain(first, { drainMs = DRAIN_MS } = {}) {
      wholeFrom(0)("drainMs", drainMs);
      const waited = new AbortController();
      await Promise.race([first.then(idle, idle), pause(systemTimer, drainMs, waited.signal)]);
      waited.abort();
      return { unfinished: count };
    },
  };
}
