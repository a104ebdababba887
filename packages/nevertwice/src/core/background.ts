/**
 * Background tasks: completions and abandons that the store did not answer in time, so that their caller no longer waits
 * for them. Each is repeated until the store answers true or false, also after the lease has ended, or until shutdown.
 */

import { canShareAcrossCalls } from "#platform";
import type { Timer } from "./clock.ts";
import { callWithin, type Deadline, pauseMs, type TimedStore } from "./store-call.ts";
import { carry, type WaitUntil } from "./wait-until.ts";

/** With this many unanswered tasks the store has been unreachable for long. No new claim is sent, since it might add a task. */
const MAX_TASKS = 10_000;

export interface Background {
  /** Repeats `call` until it is answered. Resolves with the answer, or with undefined at shutdown; never rejects. */
  persist<T>(
    timeoutMs: number,
    call: (deadline: Deadline) => Promise<T>,
    waitUntil?: WaitUntil | undefined,
  ): Promise<T | undefined>;
  isFull(): boolean;
  /** Resolves when no task is left. */
  idle(): Promise<void>;
  stop(): void;
}

export function createBackground(caller: TimedStore, random: () => number): Background {
  const tasks = new Set<Promise<unknown>>();
  /** Pauses that have not ended yet. Shutdown ends them. */
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
      if (canShareAcrossCalls) pauses.add(end);
    });
  }

  async function repeat<T>(
    timeoutMs: number,
    call: (deadline: Deadline) => Promise<T>,
  ): Promise<T | undefined> {
    for (let failures = 0; !isStopped; failures++) {
      try {
        return await callWithin(caller, timeoutMs, call);
      } catch {
        // The call carries its token, so it is safe to repeat it after any failure.
        if (!isStopped) await pause(pauseMs(failures, random));
      }
    }
    return undefined;
  }

  return {
    persist(timeoutMs, call, waitUntil) {
      const task = repeat(timeoutMs, call);
      carry(waitUntil, task);
      // A task that the platform ends with its request never settles, and would count forever.
      if (!canShareAcrossCalls) return task;
      tasks.add(task);
      void task.then(() => tasks.delete(task));
      return task;
    },
    isFull: () => tasks.size >= MAX_TASKS,
    async idle() {
      while (tasks.size > 0) await Promise.all(tasks);
    },
    stop() {
      isStopped = true;
      for (const end of pauses) end();
    },
  };
}

/** Resolves when `settled` does, or after `ms` if that is earlier. */
export function within(timer: Timer, ms: number, settled: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const cancel = timer.after(ms, resolve);
    void settled.then(() => {
      cancel();
      resolve();
    });
  });
}
