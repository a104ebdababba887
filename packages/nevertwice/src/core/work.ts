/** The work of a call, and the attempt that it is handed. */

import type { DatabaseHandle, TransactionOf } from "./database-handle.ts";
import type { EnqueueOptions } from "./enqueue.ts";

/** The object that the work is called with. */
export interface Attempt {
  /** Grows with every claim of this key: pass it to systems that can refuse a lower one. 0 if the work runs without a claim (`onUnavailable: "proceed"`). */
  readonly fence: number;
  /** 1 for the first attempt, 2 if one earlier attempt failed or was lost. */
  readonly number: number;
  /** Fires when the claim is lost: stop before the next effect. */
  readonly signal: AbortSignal;
  /** A key for another system, the same on every attempt. Throws `lease-lost` once the claim is lost. */
  deriveKey(name: string): string;
  /** Renews the claim now, in addition to the automatic renewals. False if the claim is lost; rejects if the store does not answer. */
  renew(): Promise<boolean>;
  /**
   * Runs `work` once for this key, whatever happens to the attempt: its outcome is kept, and a later attempt gets it instead
   * of running `work` again. Only the step that was in flight in a crash may run a second time. Steps run one after another,
   * in the same order in every attempt. Throws `lease-lost` once the claim is lost, and `options-invalid` if the store
   * cannot keep steps.
   */
  step<T>(name: string, work: () => T | PromiseLike<T>): Promise<T>;
  /**
   * The same for a step that writes to the store's database: `work` runs in a transaction that also keeps the step, so both
   * commit or neither does, and not even a crash runs the step twice. `database` is what `guard.transaction` takes. A
   * conflict with another transaction repeats `work`. Throws `unavailable` if the transaction was rolled back or did not
   * begin, and `unknown` if it cannot be known whether it was committed.
   */
  step<T, Handle extends DatabaseHandle>(
    name: string,
    database: Handle,
    work: (tx: TransactionOf<Handle>) => T | PromiseLike<T>,
  ): Promise<T>;
  /**
   * Writes a message in the transaction of this attempt, and returns its id: it is delivered if the transaction commits. Only
   * inside the work of `guard.transaction` or `once`, and only for a guard with an `outbox`; else it throws `options-invalid`.
   * On SQLite it returns the id at once; elsewhere a promise. A message that cannot be written fails the transaction.
   */
  enqueue(topic: string, body: unknown, options?: EnqueueOptions): string | Promise<string>;
  /**
   * How long the outcome of this attempt is kept, in milliseconds, instead of `retentionMs`. The last call before the work ends
   * counts. Throws `options-invalid` if it is not a whole number from 1 to a hundred years.
   */
  keepFor(ms: number): void;
  /** `throw attempt.notDone(cause)` says that nothing happened: the key is released, and the caller gets `cause`. */
  notDone(cause?: unknown): Error;
}

/**
 * The function that does the work. It is called with its attempt, and what it returns becomes the outcome.
 */
export type Work<T> = (attempt: Attempt) => T | PromiseLike<T>;
