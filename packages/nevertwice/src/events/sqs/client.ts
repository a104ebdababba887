/** What is used of an `SQS` of @aws-sdk/client-sqs, which is handed in: four of its methods. */
import { NevertwiceError } from "../../core/errors.ts";

/** A message as the queue hands it out. */
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

/** A message to send. */
export interface SqsSending {
  readonly QueueUrl: string;
  readonly MessageBody: string;
  readonly MessageAttributes?: Record<string, SqsAttribute>;
  /** The queue's order is kept within it; a queue that is first in, first out wants one. */
  readonly MessageGroupId?: string;
  readonly DelaySeconds?: number;
}

export interface SqsSent {
  readonly MessageId?: string | undefined;
  readonly SequenceNumber?: string | undefined;
}

interface Entry {
  Id: string;
  ReceiptHandle: string;
}

export interface SqsClient {
  receiveMessage(
    input: {
      QueueUrl: string;
      MaxNumberOfMessages: number;
      WaitTimeSeconds: number;
      VisibilityTimeout: number;
      MessageSystemAttributeNames: "All"[];
      MessageAttributeNames: string[];
    },
    options: { abortSignal: AbortSignal },
  ): Promise<{ readonly Messages?: readonly SqsMessage[] | undefined }>;
  deleteMessageBatch(input: { QueueUrl: string; Entries: Entry[] }): Promise<{
    readonly Failed?: readonly { readonly Id: string | undefined }[] | undefined;
  }>;
  changeMessageVisibility(input: {
    QueueUrl: string;
    ReceiptHandle: string;
    VisibilityTimeout: number;
  }): Promise<unknown>;
  sendMessage(input: SqsSending & { readonly MessageDeduplicationId?: string }): Promise<SqsSent>;
}

const METHODS = ["receiveMessage", "deleteMessageBatch", "changeMessageVisibility", "sendMessage"] as const;

export function isClient(name: string, value: unknown): void {
  const client = value as Partial<SqsClient> | null;
  if (METHODS.every((method) => typeof client?.[method] === "function")) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an SQS of @aws-sdk/client-sqs (new SQS({})), which has each command as a method; an SQSClient has not.`,
  );
}

/** Only a queue with this name is first in, first out. */
export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith(".fifo");
}
