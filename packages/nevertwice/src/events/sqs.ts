/** Amazon SQS: a loop over a queue that deletes what is done, and gives back what is to come again. */
import { backoffMs, backoffOf, pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import type { Consumer } from "./consumer.ts";
import type { SqsMessage } from "./sqs/client.ts";
import { queueOf } from "./sqs/queue.ts";
import { type SqsOptions, sqsSettings } from "./sqs/settings.ts";

export type { SqsAttribute, SqsClient, SqsMessage, SqsSending, SqsSent } from "./sqs/client.ts";
export { attribute, deduplicationId, messageId, sendOnce, sentKey } from "./sqs/sending.ts";
export type { SqsFailure, SqsOptions } from "./sqs/settings.ts";

export interface SqsConsumption {
  /** Takes no more messages, and resolves when those under way have ended and the queue has been told. */
  close(): Promise<void>;
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
  const lanes = new Set<Promise<void>>();
  let underWay = 0;
  let wake = () => {};

  async function poll(): Promise<void> {
    for (let failures = 0; !closing.signal.aborted; ) {
      const room = Math.min(MOST_MESSAGES, settings.concurrency - underWay);
      if (room === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      try {
        for (const lane of await queue.receive(room, closing.signal)) begin(lane);
        failures = 0;
      } catch (error) {
        if (closing.signal.aborted) return;
        queue.tell(error, { during: "receive" });
        await pause(systemTimer, backoffMs(AGAIN, ++failures, Math.random()), closing.signal);
      }
    }
  }

  function begin(lane: readonly SqsMessage[]): void {
    underWay += lane.length;
    const ended = handleLane(lane).finally(() => {
      underWay -= lane.length;
      lanes.delete(ended);
      wake();
    });
    lanes.add(ended);
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
    async close() {
      closing.abort();
      wake();
      await polling;
      await Promise.all(lanes);
    },
  };
}
