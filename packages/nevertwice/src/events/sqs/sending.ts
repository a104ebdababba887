/** Sending with a key: a FIFO queue takes it once within five minutes, and a consumer does it once for as long as it remembers. */
import { hash } from "node:crypto";
import { type Key, sendingKey } from "../../core/key.ts";
import { isFifo, type SqsClient, type SqsMessage, type SqsSending, type SqsSent } from "./client.ts";

/** The message attribute that carries the key. */
const ATTRIBUTE = "idempotency-key";

const DIGEST = "sha256:";

/** What SQS takes for a deduplication id. */
const DEDUPLICATION_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * Sends a message under a key that is the same whenever the same message is sent: `attempt.deriveKey("shipped")`, say.
 * A FIFO queue that had it within five minutes answers as if it had been sent. Let the consumer's `key` be `sentKey`.
 */
export async function sendOnce(
  client: Pick<SqsClient, "sendMessage">,
  key: string | Key,
  message: SqsSending,
): Promise<SqsSent> {
  const text = sendingKey(key, "the key of the message");
  return client.sendMessage({
    ...message,
    MessageAttributes: {
      ...message.MessageAttributes,
      [ATTRIBUTE]: { DataType: "String", StringValue: text },
    },
    ...(isFifo(message.QueueUrl) ? { MessageDeduplicationId: deduplicationIdOf(text) } : {}),
  });
}

/** A key that looks like a digest is made one too: else it could be the digest of another key. */
function deduplicationIdOf(text: string): string {
  const isFit = DEDUPLICATION_ID.test(text) && !text.startsWith(DIGEST);
  return isFit ? text : `${DIGEST}${hash("sha256", text, "hex")}`;
}

/** The key that `sendOnce` gave the message. */
export function sentKey(message: SqsMessage): string | undefined {
  return attribute(message, ATTRIBUTE);
}

/** A message attribute of the sender's own. */
export function attribute(message: SqsMessage, name: string): string | undefined {
  return message.MessageAttributes?.[name]?.StringValue;
}

/**
 * The id under which a FIFO queue takes a message once. Not with content-based deduplication: there it is the body's
 * digest, and what is rightly sent again after a day would be taken for the same.
 */
export function deduplicationId(message: SqsMessage): string | undefined {
  return message.Attributes?.MessageDeduplicationId;
}

/** The id that the queue gave the message: the same on each delivery, and another if the producer sends it again. */
export function messageId(message: SqsMessage): string | undefined {
  return message.MessageId;
}
