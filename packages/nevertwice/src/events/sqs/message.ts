/** The part of an SQS message that is used here, and the keys that it can have. */

/** A message as the queue returns it. */
export interface SqsMessage {
  /** The id that SQS gave the message. */
  readonly MessageId?: string | undefined;
  /** Settles the message, for as long as it is hidden. */
  readonly ReceiptHandle?: string | undefined;
  /** The body. */
  readonly Body?: string | undefined;
  /** What SQS says about the message: its group, and how often it was received. */
  readonly Attributes?: { readonly [name in SystemAttribute]?: string | undefined } | undefined;
  /** What the sender added to it. */
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined;
}

type SystemAttribute =
  | "ApproximateReceiveCount"
  | "MessageDeduplicationId"
  | "MessageGroupId"
  | "SentTimestamp"
  | "SequenceNumber";

/** The part of an attribute of a message that is used here. */
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
