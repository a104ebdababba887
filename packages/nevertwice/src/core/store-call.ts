/**
 * Calls to the store with a time limit. A call that was not answered is ambiguous: the store may have applied it, or may
 * still apply it. So it is only repeated with the same token, and a late answer is not ignored.
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

/** The time limit of a call, as the call sees it. */
export interface Deadline {
  /** Passed on to the store. */
  readonly signal: AbortSignal | undefined;
  /** The time is up and the caller no longer waits: a call of several steps must not start another one. */
  readonly isOver: boolean;
}

/** A store and the timer that limits calls to it. */
export interface TimedStore {
  readonly store: Store;
  readonly timer: Timer;
}

/** Settles as `send` does, or rejects with `TimedOut` after `ms`. An answer that comes later goes to `onLate`. */
export function callWithin<T>(
  { store, timer }: { readonly store: Pick<Store, "usesSignal">; readonly timer: Timer },
  ms: number,
  send: (deadline: Deadline) => Promise<T>,
  onLate?: (answer: T) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = createController(store.usesSignal);
    const deadline = { signal: controller?.signal, isOver: false };
    const cancel = timer.after(ms, () => {
      deadline.isOver = true;
      reject(new TimedOut(ms));
      controller?.abort();
    });
    const answered = (answer: T) => {
      if (deadline.isOver) return onLate?.(answer);
      cancel();
      resolve(answer);
    };
    const failed = (error: unknown) => {
      cancel();
      reject(error);
    };
    try {
      send(deadline).then(answered, failed);
    } catch (error) {
      failed(error);
    }
  });
}

/** An `AbortController` and its signal cost more than all else that a call costs here, and more again to collect. */
class AbortedFlag {
  aborted = false;

  get signal(): AbortSignal {
    return this as Pick<AbortSignal, "aborted"> as AbortSignal;
  }

  abort(): void {
    this.aborted = true;
  }
}

function createController(usesSignal: Store["usesSignal"]): AbortController | AbortedFlag | undefined {
  if (usesSignal === "aborted") return new AbortedFlag();
  return usesSignal ? new AbortController() : undefined;
}

/** The result of a call with retries. */
export type CallResult<T> =
  | { readonly isAnswered: true; readonly answer: T; readonly sentAt: number; readonly isAmbiguous: boolean }
  | {
      readonly isAnswered: false;
      readonly error: unknown;
      readonly waitedMs: number;
      /** At least one try was not answered: the store may have applied it, or may still apply it. */
      readonly isAmbiguous: boolean;
    };

/** A call that fails quickly is tried three times in all. A timeout counts as two tries, since it used up much time. */
const MAX_TRIES = 3;
const TIMEOUT_TRIES = 2;

/**
 * Sends until the store answers, and gives up after `ms`, which includes every try and every pause. `send` must be safe
 * to repeat. The first try gets half of the time, in case its message was lost. Its answer still counts while the next
 * try is in flight. An answer that comes after the end goes to `onLate`.
 *
 *   try 1 ──────────────── half of ms ┄┄┄┄┄ its late answer still counts
 *                            pause ── try 2 ──────────────── ms
 */
export function callWithRetries<T>(
  timed: TimedStore & { readonly random: () => number },
  ms: number,
  send: (deadline: Deadline) => Promise<T>,
  onLate?: (answer: T) => void,
): Promise<CallResult<T>> {
  const { timer, random } = timed;
  const startedAt = timer.now();
  const leftMs = () => startedAt + ms - timer.now();
  return new Promise((resolve) => {
    let isOver = false;
    let isAmbiguous = false;

    function attempt(tries: number): void {
      const sentAt = timer.now();
      const isLast = tries + TIMEOUT_TRIES >= MAX_TRIES;
      const answered = (answer: T) => {
        if (isOver) return onLate?.(answer);
        isOver = true;
        resolve({ isAnswered: true, answer, sentAt, isAmbiguous });
      };
      const failed = (error: unknown) => {
        if (!isOver) afterFailure(error, tries + (error instanceof TimedOut ? TIMEOUT_TRIES : 1));
      };
      callWithin(timed, isLast ? leftMs() : leftMs() / 2, send, answered).then(answered, failed);
    }

    function afterFailure(error: unknown, tries: number): void {
      const isRefused = isRefusal(error);
      if (!isRefused) isAmbiguous = true;
      if (!isRefused && tries < MAX_TRIES && leftMs() > 0) {
        timer.after(Math.min(pauseMs(tries, random), leftMs() / 2), () => isOver || attempt(tries));
        return;
      }
      isOver = true;
      const waitedMs = Math.round(timer.now() - startedAt);
      // One error for all tries: the caller does not need to know how long each of them took.
      const last = error instanceof TimedOut ? new TimedOut(waitedMs) : error;
      resolve({ isAnswered: false, error: last, waitedMs, isAmbiguous });
    }

    attempt(0);
  });
}

/** Whether the store itself refused the call (full, unsafe, closed). Then neither a retry nor proceeding without it is right. */
export function isRefusal(error: unknown): boolean {
  return isNevertwiceError(error) && error.code !== "unavailable";
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

/** Exponential with full jitter, so that many callers do not retry at the same moment when the store recovers. */
export function pauseMs(failures: number, random: () => number): number {
  return random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
}
