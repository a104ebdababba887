/** The part of an `SQS` of @aws-sdk/client-sqs that is used here: four of its methods. */
import { NevertwiceError } from "../../core/errors.ts";
import type { SqsAttribute, SqsMessage } from "./message.ts";

/** A message to send. */
export interface SqsSending {
  /** The URL of the queue. */
  readonly QueueUrl: string;
  /** The body. */
  readonly MessageBody: string;
  /** Attributes, which a consumer can read a key from. */
  readonly MessageAttributes?: Record<string, SqsAttribute>;
  /** Messages of one group stay in order. A FIFO queue needs one. */
  readonly MessageGroupId?: string;
  /** How long the queue hides the message at first, in seconds. */
  readonly DelaySeconds?: number;
}

/** The part of the answer to a send that is used here. */
export interface SqsSent {
  readonly MessageId?: string | undefined;
  readonly SequenceNumber?: string | undefined;
}

interface DeleteEntry {
  Id: string;
  ReceiptHandle: string;
}

/** The part of the client `SQS` of `@aws-sdk/client-sqs` that is used here. */
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
  deleteMessageBatch(input: { QueueUrl: string; Entries: DeleteEntry[] }): Promise<{
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

export function isSqsClient(name: string, value: unknown): void {
  const client = value as Partial<SqsClient> | null;
  if (METHODS.every((method) => typeof client?.[method] === "function")) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an SQS of @aws-sdk/client-sqs (new SQS({})), which has a method for each command; an SQSClient has none.`,
  );
}

/** The name of every FIFO queue ends with `.fifo`. */
export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith(".fifo");
}
