/**
 * Calls to the store, bounded in time. A call that was not answered is ambiguous: it may have been applied, and it may
 * still be. So it is only ever repeated with the same token, and its late answer is looked at when it comes.
 */
import type { Timer } from "./clock.ts";
import { isNevertwiceError } from "./errors.ts";
import type { Store } from "./store.ts";

export class TimedOut extends Error {
  constructor(ms: number) {
    super(`the store did not answer within ${ms} ms`);
    this.name = "TimedOut";
  }
}

/** What a call knows of the patience of whoever waits for it. */
export interface Bound {
  /** Handed on to the store. */
  readonly signal: AbortSignal | undefined;
  /** Nobody waits any more: a call of several steps takes no further one. */
  readonly isOver: boolean;
}

export interface Caller {
  readonly store: Store;
  readonly timer: Timer;
}

/** Answers as `send` does, or rejects with `TimedOut` after `ms`; an answer that comes after that goes to `onLate`. */
export function bounded<T>(
  { store, timer }: { readonly store: Pick<Store, "usesSignal">; readonly timer: Timer },
  ms: number,
  send: (bound: Bound) => Promise<T>,
  onLate?: (answer: T) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = store.usesSignal ? new AbortController() : undefined;
    const bound = { signal: controller?.signal, isOver: false };
    const cancel = timer.after(ms, () => {
      bound.isOver = true;
      reject(new TimedOut(ms));
      controller?.abort();
    });
    const answered = (answer: T) => {
      if (bound.isOver) return onLate?.(answer);
      cancel();
      resolve(answer);
    };
    const failed = (error: unknown) => {
      cancel();
      reject(error);
    };
    try {
      send(bound).then(answered, failed);
    } catch (error) {
      failed(error);
    }
  });
}

/** A store that says no (full, unsafe, closed) has answered: repeating the call, or proceeding without, is wrong. */
export function isRefusal(error: unknown): boolean {
  return isNevertwiceError(error) && error.code !== "unavailable";
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

/** Exponential with full jitter, so that many callers of a store that comes back do not come back as one. */
export function pauseMs(failures: number, random: () => number): number {
  return random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
}
