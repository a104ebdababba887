/** A queue, as the loop over it needs it: what to take from it, and what to tell it. */
import { harmless } from "../../core/observer.ts";
import type { Delivery } from "../delivery.ts";
import { lanesBy } from "../lanes.ts";
import { isFifo, type SqsMessage } from "./client.ts";
import { createDeletions } from "./deletions.ts";
import { MOST_VISIBILITY_MS, type SqsFailure, type SqsSettings } from "./settings.ts";

/** Only `receive` rejects. */
export function queueOf(settings: SqsSettings) {
  const { client, queueUrl, deadLetterQueueUrl, waitMs, visibilityMs } = settings;
  const QueueUrl = queueUrl;
  const remove = createDeletions(deleteAll);

  function tell(error: unknown, failed: SqsFailure): void {
    harmless(() => settings.onError?.(error, failed));
  }

  /** The messages of one call, by what must stay in order. */
  async function receive(most: number, abortSignal: AbortSignal): Promise<SqsMessage[][]> {
    const input = {
      QueueUrl,
      MaxNumberOfMessages: most,
      WaitTimeSeconds: seconds(waitMs),
      VisibilityTimeout: seconds(visibilityMs),
      MessageSystemAttributeNames: ["All" as const],
      MessageAttributeNames: ["All"],
    };
    const { Messages = [] } = await client.receiveMessage(input, { abortSignal });
    // Groups of a queue that is not FIFO share it fairly, and have no order.
    const laneOf = (message: SqsMessage) =>
      isFifo(queueUrl) ? (message.Attributes?.MessageGroupId ?? "") : message;
    return lanesBy(Messages, laneOf);
  }

  async function deleteAll(receiptHandles: readonly string[]): Promise<void> {
    const Entries = receiptHandles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    try {
      const { Failed = [] } = await client.deleteMessageBatch({ QueueUrl, Entries });
      for (const failed of Failed) tell(failed, { during: "delete" });
    } catch (error) {
      tell(error, { during: "delete" });
    }
  }

  async function hide(message: SqsMessage, ms: number): Promise<void> {
    const VisibilityTimeout = seconds(Math.min(ms, MOST_VISIBILITY_MS));
    try {
      await client.changeMessageVisibility({ QueueUrl, ReceiptHandle: handleOf(message), VisibilityTimeout });
    } catch (error) {
      tell(error, { during: "visibility", message });
    }
  }

  /** Whether a copy is where people look. */
  async function bury(message: SqsMessage, to: string): Promise<boolean> {
    try {
      await client.sendMessage(copyOf(message, to));
      return true;
    } catch (error) {
      tell(error, { during: "dead-letter", message });
      return false;
    }
  }

  /** Tells the queue the verdict; true if the message is out of the way of those behind it. */
  async function settle(message: SqsMessage, delivery: Delivery): Promise<boolean> {
    if (delivery.verdict === "later") {
      await hide(message, delivery.afterMs);
      return false;
    }
    if (
      delivery.verdict === "reject" &&
      (deadLetterQueueUrl === undefined || !(await bury(message, deadLetterQueueUrl)))
    )
      return false;
    await remove(handleOf(message));
    return true;
  }

  return {
    tell,
    receive,
    settle,
    keepHidden: (messages: readonly SqsMessage[]) =>
      Promise.all(messages.map((message) => hide(message, visibilityMs))),
    /** The last one first: whatever the queue does in between, none overtakes another. */
    async giveBack(messages: readonly SqsMessage[]): Promise<void> {
      for (const message of messages.toReversed()) await hide(message, 0);
    },
  };
}

function handleOf({ ReceiptHandle = "" }: SqsMessage): string {
  return ReceiptHandle;
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** To a FIFO queue a copy goes once, however often the verdict is told. */
function copyOf(message: SqsMessage, QueueUrl: string) {
  const { MessageId = "", Body = "", Attributes, MessageAttributes } = message;
  const MessageGroupId = Attributes?.MessageGroupId ?? MessageId;
  return {
    QueueUrl,
    MessageBody: Body,
    ...(MessageAttributes === undefined ? {} : { MessageAttributes }),
    ...(isFifo(QueueUrl) ? { MessageGroupId, MessageDeduplicationId: MessageId } : {}),
  };
}
