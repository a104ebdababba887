/** One queue: receives messages, and tells the queue their verdicts. */
import { harmless } from "../../core/observer.ts";
import type { Delivery } from "../delivery.ts";
import { groupIntoLanes } from "../lanes.ts";
import { isFifo } from "./client.ts";
import { createDeletions } from "./deletions.ts";
import type { SqsMessage } from "./message.ts";
import { MOST_VISIBILITY_MS, type SqsFailure, type SqsSettings } from "./options.ts";

/** Only `receive` rejects. */
export function createQueue(settings: SqsSettings) {
  const { client, queueUrl, deadLetterQueueUrl, waitMs, visibilityMs } = settings;
  const QueueUrl = queueUrl;
  const remove = createDeletions(deleteAll);

  function reportError(error: unknown, failed: SqsFailure): void {
    harmless(() => settings.onError?.(error, failed));
  }

  /** The messages of one call, grouped by what must stay in order. */
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
    // In a queue that is not FIFO, groups only share the queue fairly. Their messages have no order.
    const laneName = (message: SqsMessage) =>
      isFifo(queueUrl) ? (message.Attributes?.MessageGroupId ?? "") : message;
    return groupIntoLanes(Messages, laneName);
  }

  async function deleteAll(receiptHandles: readonly string[]): Promise<void> {
    const Entries = receiptHandles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    try {
      const { Failed = [] } = await client.deleteMessageBatch({ QueueUrl, Entries });
      for (const failed of Failed) reportError(failed, { during: "delete" });
    } catch (error) {
      reportError(error, { during: "delete" });
    }
  }

  async function hide(message: SqsMessage, ms: number): Promise<void> {
    const VisibilityTimeout = seconds(Math.min(ms, MOST_VISIBILITY_MS));
    try {
      await client.changeMessageVisibility({
        QueueUrl,
        ReceiptHandle: receiptHandle(message),
        VisibilityTimeout,
      });
    } catch (error) {
      reportError(error, { during: "visibility", message });
    }
  }

  /** Copies the message to the dead-letter queue, and returns whether that succeeded. */
  async function bury(message: SqsMessage, to: string): Promise<boolean> {
    try {
      await client.sendMessage(deadLetterCopy(message, to));
      return true;
    } catch (error) {
      reportError(error, { during: "dead-letter", message });
      return false;
    }
  }

  /** Tells the queue the verdict. Returns whether the messages behind this one may follow. */
  async function settle(message: SqsMessage, delivery: Delivery): Promise<boolean> {
    switch (delivery.verdict) {
      case "acknowledge":
        await remove(receiptHandle(message));
        return true;
      case "later":
        await hide(message, delivery.afterMs);
        return false;
      case "reject":
        return reject(message);
    }
  }

  async function reject(message: SqsMessage): Promise<boolean> {
    const isCopied = deadLetterQueueUrl !== undefined && (await bury(message, deadLetterQueueUrl));
    // Without a copy the message stays, and the queue's redrive policy decides.
    if (isCopied) await remove(receiptHandle(message));
    return isCopied;
  }

  return {
    reportError,
    receive,
    settle,
    keepHidden: (messages: readonly SqsMessage[]) =>
      Promise.all(messages.map((message) => hide(message, visibilityMs))),
    /** The last one first, so that no message can overtake another. */
    async giveBack(messages: readonly SqsMessage[]): Promise<void> {
      for (const message of messages.toReversed()) await hide(message, 0);
    },
  };
}

function receiptHandle({ ReceiptHandle = "" }: SqsMessage): string {
  return ReceiptHandle;
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** A FIFO queue stores the copy once, however often this is sent. */
function deadLetterCopy(message: SqsMessage, QueueUrl: string) {
  const { MessageId = "", Body = "", Attributes, MessageAttributes } = message;
  const MessageGroupId = Attributes?.MessageGroupId ?? MessageId;
  return {
    QueueUrl,
    MessageBody: Body,
    ...(MessageAttributes === undefined ? {} : { MessageAttributes }),
    ...(isFifo(QueueUrl) ? { MessageGroupId, MessageDeduplicationId: MessageId } : {}),
  };
}
