/** The part of an SQS message that is used here, and the keys that it can have. */

/** A message as the queue returns it. */
export interface SqsMessage {
  readonly MessageId?: string | undefined;
  readonly ReceiptHandle?: string | undefined;
  readonly Body?: string | undefined;
  readonly Attributes?: { readonly [name in SystemAttribute]?: string | undefined } | undefined;
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined;
}

type SystemAttribute =
  | "ApproximateReceiveCount"
  | "MessageDeduplicationId"
  | "MessageGroupId"
  | "SentTimestamp"
  | "SequenceNumber";

export interface SqsAttribute {
  readonly DataType: string | undefined;
  readonly StringValue?: string | undefined;
  readonly BinaryValue?: Uint8Array | undefined;
}

/** The message attribute that carries the key of `sendOnce`. */
export const KEY_ATTRIBUTE = "idempotency-key";

/** The key that `sendOnce` gave the message. */
export function sentKey(message: SqsMessage): string | undefined {
  return attribute(message, KEY_ATTRIBUTE);
}

/** A message attribute that the sender set. */
export function attribute(message: SqsMessage, name: string): string | undefined {
  return message.MessageAttributes?.[name]?.StringValue;
}

/**
 * The id by which a FIFO queue removes duplicates. Do not use it with content-based deduplication: there it is a digest of
 * the body, so an equal message that is meant to be a new one would count as a duplicate.
 */
export function deduplicationId(message: SqsMessage): string | undefined {
  return message.Attributes?.MessageDeduplicationId;
}

/** The id that the queue gave the message. It is the same on every delivery, and another one if the producer sends again. */
export function messageId(message: SqsMessage): string | undefined {
  return message.MessageId;
}
