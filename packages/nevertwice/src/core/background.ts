/**
 * What must reach the store although nobody waits for it any more: completions and abandons whose call was not
 * answered. Each is repeated until the store says true or false, past the lease's end too, or until shutdown.
 */
import { type Bound, bounded, type Caller, pauseMs } from "./calls.ts";

/** Past this many unanswered errands the store has been away for long: no new claim is sent that might need another. */
const MAX_ERRANDS = 10_000;

export interface Background {
  /** Repeats `call` until it is answered. Resolves with the answer, or with undefined at shutdown; never rejects. */
  persist<T>(timeoutMs: number, call: (bound: Bound) => Promise<T>): Promise<T | undefined>;
  isFull(): boolean;
  /** Resolves when nothing is left to be said to the store. */
  idle(): Promise<void>;
  stop(): void;
}

export function createBackground(caller: Caller, random: () => number): Background {
  const errands = new Set<Promise<unknown>>();
  /** Pauses under way, so that shutdown ends them. */
  const pauses = new Set<() => void>();
  let isStopped = false;

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        pauses.delete(end);
        resolve();
      };
      const cancel = caller.timer.after(ms, end);
      pauses.add(end);
    });
  }

  async function repeat<T>(timeoutMs: number, call: (bound: Bound) => Promise<T>): Promise<T | undefined> {
    for (let failures = 0; !isStopped; failures++) {
      try {
        return await bounded(caller, timeoutMs, call);
      } catch {
        // Unanswered, for whatever reason: the call carries its token, so repeating it is safe.
        if (!isStopped) await pause(pauseMs(failures, random));
      }
    }
    return undefined;
  }

  return {
    persist(timeoutMs, call) {
      const errand = repeat(timeoutMs, call);
      errands.add(errand);
      errand.then(() => errands.delete(errand));
      return errand;
    },
    isFull: () => errands.size >= MAX_ERRANDS,
    async idle() {
      while (errands.size > 0) await Promise.all(errands);
    },
    stop() {
      isStopped = true;
      for (const end of pauses) end();
    },
  };
}
