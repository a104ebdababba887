/**
 * BullMQ: a processor that does each job once. BullMQ gives a job to a second worker when it has not heard from the first
 * for a while, though that may be at work; and a job may be added twice.
 */
import { compositeKey, type Key } from "../core/key.ts";
import type { Consumer } from "./consumer.ts";

/** What is needed of a job of BullMQ 5 and later. */
export interface BullmqJob {
  readonly id?: string | undefined;
  readonly queueName: string;
  /** When it was added. */
  readonly timestamp: number;
  moveToDelayed(timestamp: number, token?: string): Promise<unknown>;
}

/**
 * The key of a job is the `jobId` that it was added with. One that was added without is named by its number and the time at
 * which it was added: numbers begin anew when a queue is obliterated.
 */
export function jobKey({ id, queueName, timestamp }: BullmqJob): Key | undefined {
  if (id === undefined) return undefined;
  return /^\d+$/.test(id) ? compositeKey(queueName, id, timestamp) : compositeKey(queueName, id);
}

/**
 * For `new Worker(name, bullmqProcessor(consumer), …)`. A job that was done before is answered with the value that was kept.
 * What the work throws is thrown: BullMQ's own `attempts` and `backoff` say when it is tried again. A rejected job fails for good.
 */
export function bullmqProcessor<Job extends BullmqJob, T>(
  consumer: Consumer<Job, T>,
): (job: Job, token?: string) => Promise<T | undefined> {
  return async (job, token) => {
    const delivery = await consumer.handle(job);
    if (delivery.verdict === "acknowledge") return "value" in delivery ? delivery.value : undefined;
    if (delivery.verdict === "reject")
      throw named("UnrecoverableError", reasonOf(delivery.error), delivery.error);
    if (delivery.status === "failed") throw delivery.error;
    await job.moveToDelayed(Date.now() + delivery.afterMs, token);
    throw named(
      "DelayedError",
      `this job is ${delivery.status}; it is tried again in ${delivery.afterMs} ms`,
    );
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** BullMQ knows these errors by their names, whichever copy of it they come from. */
function named(name: "DelayedError" | "UnrecoverableError", message: string, cause?: unknown): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause });
  error.name = name;
  return error;
}
