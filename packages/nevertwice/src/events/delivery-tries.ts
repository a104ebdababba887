/**
 * The tries of one delivery under one claim: the work is tried until it succeeds, its retries are used up, or the claim is
 * lost.
 */
import { type Attempt, restartSteps } from "../core/attempt.ts";
import { backoffMs, pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { harmless } from "../core/observer.ts";
import type { TransactionEnd, TransactionRunner } from "../core/transaction-port.ts";
import type { ConsumerEvent } from "./consumer-event.ts";
import type { ConsumerSettings, ConsumerTransaction, Tried } from "./consumer-options.ts";

/** The progress of one delivery. */
export interface DeliveryProgress {
  tries: number;
  /** The attempt's number, which the store counts over all deliveries. */
  attempts: number;
  /** Whether the last error that the work threw is permanent. Judged here because a remembered error is a copy of it. */
  isPermanentError: boolean;
}

/** Tries the work until it succeeds, its retries are used up, or the claim is lost. */
export async function tryAll<Message, T, Result>(
  settings: ConsumerSettings<Message, T>,
  attempt: Attempt,
  progress: DeliveryProgress,
  tryOnce: (tried: Tried) => Promise<Result>,
): Promise<Result> {
  const { backoff } = settings;
  progress.attempts = attempt.number;
  for (;;) {
    progress.tries++;
    restartSteps(attempt);
    try {
      return await tryOnce({ number: progress.tries });
    } catch (error) {
      const { signal } = attempt;
      progress.isPermanentError = isPermanent(settings, error);
      if (progress.tries > backoff.max || signal.aborted || progress.isPermanentError) throw error;
      const afterMs = backoffMs(backoff, progress.tries, Math.random());
      report(settings, { kind: "retrying", consumer: settings.name, tries: progress.tries, afterMs, error });
      await pause(systemTimer, afterMs, signal);
      if (signal.aborted) throw error;
    }
  }
}

/**
 * The same with a transaction for each try, all under one claim. The lease of a claim in a transaction is not renewed while
 * the transaction runs; each further try sets it anew.
 */
export function transactionTries<Message, T>(
  settings: ConsumerSettings<Message, T>,
  { door, database, work }: ConsumerTransaction<Message, T>,
  message: Message,
  progress: DeliveryProgress,
): TransactionRunner {
  return {
    async run(claimed) {
      const tryOnce = async (tried: Tried): Promise<TransactionEnd> => {
        if (tried.number > 1) {
          const isOurs = await claimed.renew().catch((error: unknown) => ({ error }));
          if (typeof isOurs === "object") return { status: "failed", error: isOurs.error };
          if (!isOurs) return { status: "lost" };
        }
        const runner = door.runnerFor(database, (tx, attempt) => work(tx, message, attempt, tried));
        const end = await runner.run(claimed);
        if (end.status === "threw") throw end.thrown;
        return end;
      };
      try {
        return await tryAll(settings, claimed.attempt, progress, tryOnce);
      } catch (thrown) {
        return { status: "threw", thrown };
      }
    },
  };
}

/** An `isPermanent` that throws counts as false: the message is tried again. */
export function isPermanent<Message, T>(settings: ConsumerSettings<Message, T>, error: unknown): boolean {
  return harmless(() => settings.isPermanent?.(error)) === true;
}

export function report<Message, T>({ onEvent }: ConsumerSettings<Message, T>, event: ConsumerEvent): void {
  if (onEvent !== undefined) harmless(() => onEvent(event));
}
