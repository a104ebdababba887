/** Amazon SQS: a loop over a queue. It deletes messages that are done, and makes those visible again that must come again. */
import { backoffMs, pause, toBackoff } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import type { Consumer } from "./consumer.ts";
import { createInFlightWork, type Drained, type DrainOptions } from "./in-flight-work.ts";
import type { SqsMessage } from "./sqs/message.ts";
import { requireVisibility, type SqsOptions, sqsSettings } from "./sqs/options.ts";
import { createQueue } from "./sqs/queue.ts";

export type { SqsClient, SqsSending, SqsSent } from "./sqs/client.ts";
export type { SqsAttribute, SqsMessage } from "./sqs/message.ts";
export { attribute, deduplicationId, messageId, sentKey } from "./sqs/message.ts";
export type { SqsFailure, SqsOptions } from "./sqs/options.ts";
export { sendOnce } from "./sqs/send-once.ts";

/** A running consumption. */
export interface SqsConsumption {
  /** Takes no more messages, and waits until started ones have ended and their verdicts reached the queue. */
  close(options?: DrainOptions): Promise<Drained>;
}

/** The most messages that SQS returns in one call. */
const MOST_MESSAGES = 10;

/** The pauses between calls that fail. */
const RECEIVE_BACKOFF = toBackoff({ baseMs: 500, capMs: 30_000 });

/**
 * Consumes the messages of a queue, and starts immediately. Later failures are reported to `onError` and retried.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { SQS } from "@aws-sdk/client-sqs";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { consumeSqs, messageId, type SqsMessage } from "nevertwice/events/sqs";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: messageId,
 *   work: async (message: SqsMessage) => console.log(message.Body),
 * });
 * const queueUrl = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
 * const consumption = consumeSqs(billing, { client: new SQS(), queueUrl });
 * process.once("SIGTERM", () => consumption.close());
 * ```
 */
export function consumeSqs<T>(
  consumer: Pick<Consumer<SqsMessage, T>, "handle"> & Partial<Pick<Consumer<SqsMessage>, "renewedWithinMs">>,
  options: SqsOptions,
): SqsConsumption {
  const settings = sqsSettings(options);
  requireVisibility(settings, consumer.renewedWithinMs);
  const queue = createQueue(settings);
  const closing = new AbortController();
  const inFlight = createInFlightWork(settings.concurrency);

  async function poll(): Promise<void> {
    for (let failures = 0; !closing.signal.aborted; ) {
      await inFlight.room();
      if (inFlight.isStopped()) return;
      try {
        const most = Math.min(MOST_MESSAGES, inFlight.free());
        for (const lane of await queue.receive(most, closing.signal))
          inFlight.begin(() => handleLane(lane), lane.length);
        failures = 0;
      } catch (error) {
        if (closing.signal.aborted) return;
        queue.reportError(error, { during: "receive" });
        await pause(systemTimer, backoffMs(RECEIVE_BACKOFF, ++failures, Math.random()), closing.signal);
      }
    }
  }

  /** In order, up to the first message that must come again: those behind it come again after it. */
  async function handleLane(lane: readonly SqsMessage[]): Promise<void> {
    for (const [index, message] of lane.entries()) {
      const behind = lane.slice(index + 1);
      if (closing.signal.aborted) return queue.giveBack([message, ...behind]);
      const onRenewed = () => queue.keepHidden([message, ...behind]);
      const delivery = await consumer.handle(message, { onRenewed });
      if (!(await queue.settle(message, delivery))) return queue.giveBack(behind);
    }
  }

  const polling = poll();
  return {
    close(drain) {
      closing.abort();
      inFlight.stop();
      return inFlight.drain(polling, drain);
    },
  };
}
