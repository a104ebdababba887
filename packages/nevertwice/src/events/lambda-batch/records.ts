/** The batches that AWS Lambda hands to a function: what a record is, what it is called, and which must stay in order. */
import { NevertwiceError } from "../../core/errors.ts";
import { lanesBy } from "../lanes.ts";

/** A message of an SQS queue. */
export interface LambdaSqsRecord {
  readonly messageId: string;
  readonly body: string;
  readonly eventSource: string;
  readonly eventSourceARN: string;
  readonly attributes: {
    readonly MessageGroupId?: string | undefined;
    readonly MessageDeduplicationId?: string | undefined;
  };
  readonly messageAttributes: {
    readonly [name: string]: { readonly stringValue?: string | undefined } | undefined;
  };
}

/** A record of a Kinesis stream. `data` is base64. */
export interface LambdaKinesisRecord {
  readonly eventID: string;
  readonly eventSource: string;
  readonly kinesis: {
    readonly sequenceNumber: string;
    readonly partitionKey: string;
    readonly data: string;
  };
}

/** A change of a DynamoDB table. The sender leaves out what there is not. */
export interface LambdaDynamodbRecord {
  readonly eventID?: string | undefined;
  readonly eventName?: string | undefined;
  readonly eventSource?: string | undefined;
  readonly dynamodb?: {
    readonly SequenceNumber?: string | undefined;
    readonly Keys?: object | undefined;
    readonly NewImage?: object | undefined;
    readonly OldImage?: object | undefined;
  };
}

/** A record of Kafka, of Amazon's or of your own. `key` and `value` are base64. */
export interface LambdaKafkaRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key?: string | undefined;
  readonly value: string;
}

export type LambdaRecord = LambdaSqsRecord | LambdaKinesisRecord | LambdaDynamodbRecord | LambdaKafkaRecord;

/** `Records` of SQS, Kinesis and DynamoDB; `records`, by partition, of Kafka. */
export type LambdaBatchEvent<Message extends LambdaRecord = LambdaRecord> =
  | { readonly Records: readonly Message[] }
  | { readonly records: { readonly [partition: string]: readonly Message[] | undefined } };

/** What Lambda wants a record to be called. */
export type ItemIdentifier = string | { readonly partition: string; readonly offset: number };

/** Records that must be done in this order. */
export interface Lane<Message> {
  readonly items: readonly { readonly record: Message; readonly identifier: ItemIdentifier }[];
  /** Of a stream, whatever follows the first that is reported comes again too, and need not be named. */
  readonly isStream: boolean;
}

/** Fails with `options-invalid` for what is no batch, or one whose records cannot be told apart. */
export function lanesOf<Message extends LambdaRecord>(event: LambdaBatchEvent<Message>): Lane<Message>[] {
  if (typeof event !== "object" || event === null) throw unknownEvent();
  if ("records" in event && typeof event.records === "object" && event.records !== null)
    return Object.values(event.records).map((records = []) => laneOf(records));
  if (!("Records" in event) || !Array.isArray(event.Records)) throw unknownEvent();
  const lanes = lanesBy<Message>(event.Records, laneNameOf);
  return lanes.map(laneOf);
}

/** A stream, the group of a FIFO queue, or the message itself. */
function laneNameOf(record: LambdaRecord): unknown {
  if (typeof record !== "object" || record === null) throw unknownEvent();
  if (!("messageId" in record)) return "the stream";
  return record.eventSourceARN?.endsWith(".fifo") ? (record.attributes.MessageGroupId ?? "") : record;
}

function laneOf<Message extends LambdaRecord>(records: readonly Message[]): Lane<Message> {
  const items = records.map((record) => {
    const identifier = identifierOf(record);
    // A name that Lambda does not know makes it repeat the whole batch, and so does this.
    if (identifier === undefined || identifier === "") throw unknownEvent();
    return { record, identifier };
  });
  return { items, isStream: records.every((record) => !("messageId" in record)) };
}

function identifierOf(record: LambdaRecord): ItemIdentifier | undefined {
  if ("messageId" in record) return record.messageId;
  if ("kinesis" in record) return record.kinesis.sequenceNumber;
  if ("offset" in record) return { partition: `${record.topic}-${record.partition}`, offset: record.offset };
  return record.dynamodb?.SequenceNumber;
}

function unknownEvent(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "the event is no batch of SQS, Kinesis, DynamoDB Streams or Kafka: check what the function is triggered by.",
  );
}
