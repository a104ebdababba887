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
  /** `work` never rejects. `places` is how many it takes while it is under way; 1 unless given. */
  begin(work: () => Promise<unknown>, places?: number): void;
  /** How many more may be begun. */
  free(): number;
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
      await drained(first.then(idle, idle), options);
      return { unfinished: count };
    },
  };
}

/** Waits for the end of what is under way, but not for ever. */
export async function drained(
  ended: Promise<unknown>,
  { drainMs = DRAIN_MS }: DrainOptions = {},
): Promise<void> {
  wholeFrom(0)("drainMs", drainMs);
  const waited = new AbortController();
  await Promise.race([ended, pause(systemTimer, drainMs, waited.signal)]);
  waited.abort();
}
