/** Sends a message under a key. A FIFO queue stores it once within five minutes, and a consumer processes it once within its retention. */
import { sha256 } from "#platform";
import { type Key, sendingKey } from "../../core/key.ts";
import { isFifo, type SqsClient, type SqsSending, type SqsSent } from "./client.ts";
import { KEY_ATTRIBUTE } from "./message.ts";

const DIGEST = "sha256:";

/** The characters and the length that SQS allows in a deduplication id. */
const DEDUPLICATION_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * The key must be the same whenever the same message is sent, for example `attempt.deriveKey("shipped")`. A FIFO queue that
 * received it within five minutes answers as if it had stored the message. Use `sentKey` as the consumer's `key`.
 * @throws `key-invalid`, `key-missing`
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
      [KEY_ATTRIBUTE]: { DataType: "String", StringValue: text },
    },
    ...(isFifo(message.QueueUrl) ? { MessageDeduplicationId: toDeduplicationId(text) } : {}),
  });
}

/** A key that looks like a digest is hashed too. Otherwise it could equal the digest of another key. */
function toDeduplicationId(text: string): string {
  const isValid = DEDUPLICATION_ID.test(text) && !text.startsWith(DIGEST);
  return isValid ? text : `${DIGEST}${sha256(text, "hex")}`;
}
