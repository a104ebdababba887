/** Amazon SQS: a loop over a queue that deletes what is done, and gives back what is to come again. */
import { backoffMs, backoffOf, pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import type { Consumer } from "./consumer.ts";
import type { SqsMessage } from "./sqs/client.ts";
import { queueOf } from "./sqs/queue.ts";
import { type SqsOptions, sqsSettings } from "./sqs/settings.ts";
import { createUnderWay, type Drained, type DrainOptions } from "./under-way.ts";

export type { SqsAttribute, SqsClient, SqsMessage, SqsSending, SqsSent } from "./sqs/client.ts";
export { attribute, deduplicationId, messageId, sendOnce, sentKey } from "./sqs/sending.ts";
export type { SqsFailure, SqsOptions } from "./sqs/settings.ts";

export interface SqsConsumption {
  /** Takes no more messages, and waits for those under way to end and for the queue to be told. */
  close(options?: DrainOptions): Promise<Drained>;
}

/** The most that SQS hands out in one call. */
const MOST_MESSAGES = 10;

/** Between calls that fail. */
const AGAIN = backoffOf({ baseMs: 500, capMs: 30_000 });

/** Starts at once. Fails with `options-invalid` on bad options; what fails later is told to `onError`, and tried again. */
export function consumeSqs<T>(
  consumer: Pick<Consumer<SqsMessage, T>, "handle">,
  options: SqsOptions,
): SqsConsumption {
  const settings = sqsSettings(options);
  const queue = queueOf(settings);
  const closing = new AbortController();
  const underWay = createUnderWay(settings.concurrency);

  async function poll(): Promise<void> {
    for (let failures = 0; !closing.signal.aborted; ) {
      await underWay.room();
      if (underWay.isStopped()) return;
      try {
        const most = Math.min(MOST_MESSAGES, underWay.free());
        for (const lane of await queue.receive(most, closing.signal))
          underWay.begin(() => handleLane(lane), lane.length);
        failures = 0;
      } catch (error) {
        if (closing.signal.aborted) return;
        queue.tell(error, { during: "receive" });
        await pause(systemTimer, backoffMs(AGAIN, ++failures, Math.random()), closing.signal);
      }
    }
  }

  /** One after the other, up to the first that has to come again: those behind it come again after it. */
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
      underWay.stop();
      return underWay.drain(polling, drain);
    },
  };
}
