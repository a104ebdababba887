/**
 * BullMQ: a processor that runs each job once. BullMQ gives a job to a second worker if the first has not renewed its lock,
 * although the first may still be working. A job may also be added twice.
 */
import { compositeKey, type Key } from "../core/key.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery } from "./delivery.ts";

/** The part of a job of BullMQ 5 and later that is used here. */
export interface BullmqJob {
  readonly id?: string | undefined;
  readonly queueName: string;
  /** When it was added. */
  readonly timestamp: number;
  moveToDelayed(timestamp: number, token?: string): Promise<unknown>;
}

/**
 * The key of a job is the `jobId` that it was added with. Without one, the key is the job's number and the time at which it
 * was added, because numbers start at 1 again after a queue is obliterated.
 */
export function jobKey({ id, queueName, timestamp }: BullmqJob): Key | undefined {
  if (id === undefined) return undefined;
  return /^\d+$/.test(id) ? compositeKey(queueName, id, timestamp) : compositeKey(queueName, id);
}

/**
 * For `new Worker(name, bullmqProcessor(consumer), …)`. A duplicate job returns the stored value. What the work throws is
 * thrown: the `attempts` and `backoff` of BullMQ decide when the job is tried again. A rejected job fails for good.
 * @example
 * ```ts server
 * import { Worker, type Job } from "bullmq";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { bullmqProcessor, jobKey } from "nevertwice/events/bullmq";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, { name: "billing", key: jobKey, work: async (job: Job) => job.data });
 * new Worker("orders", bullmqProcessor(billing), { connection: { host: "localhost" } });
 * ```
 */
export function bullmqProcessor<Job extends BullmqJob, T>(
  consumer: Consumer<Job, T>,
): (job: Job, token?: string) => Promise<T | undefined> {
  /** Tells BullMQ the verdict. */
  async function settle(job: Job, token: string | undefined, delivery: Delivery<T>): Promise<T | undefined> {
    switch (delivery.verdict) {
      case "acknowledge":
        return "value" in delivery ? delivery.value : undefined;
      case "later":
        if (delivery.status === "failed") throw delivery.error;
        await job.moveToDelayed(Date.now() + delivery.afterMs, token);
        throw createError(
          "DelayedError",
          `this job is ${delivery.status}; it is tried again in ${delivery.afterMs} ms`,
        );
      case "reject":
        throw createError("UnrecoverableError", messageFrom(delivery.error), delivery.error);
    }
  }

  return async (job, token) => settle(job, token, await consumer.handle(job));
}

function messageFrom(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** BullMQ recognises these errors by name, so they need not come from the same copy of BullMQ. */
function createError(name: "DelayedError" | "UnrecoverableError", message: string, cause?: unknown): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause });
  error.name = name;
  return error;
}
