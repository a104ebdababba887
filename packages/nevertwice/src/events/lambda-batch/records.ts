/** The batches that AWS Lambda passes to a function: the kinds of records, their identifiers, and which must stay in order. */
import { NevertwiceError } from "../../core/errors.ts";
import { groupIntoLanes } from "../lanes.ts";

/** The part of a message of an SQS queue that is used here. */
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

/** The part of a record of a Kinesis stream that is used here. `data` is base64. */
export interface LambdaKinesisRecord {
  readonly eventID: string;
  readonly eventSource: string;
  readonly kinesis: {
    readonly sequenceNumber: string;
    readonly partitionKey: string;
    readonly data: string;
  };
}

/** The part of a change of a DynamoDB table that is used here. Members without a value are left out. */
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

/** The part of a record of Amazon MSK or of your own Kafka that is used here. `key` and `value` are base64. */
export interface LambdaKafkaRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key?: string | undefined;
  readonly value: string;
}

/** A record of any of the sources. */
export type LambdaRecord = LambdaSqsRecord | LambdaKinesisRecord | LambdaDynamodbRecord | LambdaKafkaRecord;

/** `Records` of SQS, Kinesis and DynamoDB; `records`, by partition, of Kafka. */
export type LambdaBatchEvent<Message extends LambdaRecord = LambdaRecord> =
  | {
      /** The records of SQS, Kinesis or DynamoDB. */
      readonly Records: readonly Message[];
    }
  | {
      /** The records of Kafka, by topic and partition. */
      readonly records: { readonly [partition: string]: readonly Message[] | undefined };
    };

/** How a record is named in the response to Lambda. */
export type ItemIdentifier =
  | string
  | {
      /** The topic and the partition, as `topic-0`. */
      readonly partition: string;
      /** The offset of the record. */
      readonly offset: number;
    };

/** Records that must be handled in this order. */
export interface Lane<Message> {
  readonly items: readonly { readonly record: Message; readonly identifier: ItemIdentifier }[];
  /** In a stream, Lambda repeats everything after the first reported record, so only that one is reported. */
  readonly isStream: boolean;
}

/** Throws `options-invalid` if the event is not a batch, or if a record has no identifier. */
export function toLanes<Message extends LambdaRecord>(event: LambdaBatchEvent<Message>): Lane<Message>[] {
  if (typeof event !== "object" || event === null) throw unknownEvent();
  if ("records" in event && typeof event.records === "object" && event.records !== null)
    return Object.values(event.records).map((records = []) => toLane(records));
  if (!("Records" in event) || !Array.isArray(event.Records)) throw unknownEvent();
  const lanes = groupIntoLanes<Message>(event.Records, laneName);
  return lanes.map(toLane);
}

/** A stream is one lane, a group of a FIFO queue is another, and any other message is alone in its lane. */
function laneName(record: LambdaRecord): unknown {
  if (typeof record !== "object" || record === null) throw unknownEvent();
  if (!("messageId" in record)) return "the stream";
  return record.eventSourceARN?.endsWith(".fifo") ? (record.attributes.MessageGroupId ?? "") : record;
}

function toLane<Message extends LambdaRecord>(records: readonly Message[]): Lane<Message> {
  const items = records.map((record) => {
    const identifier = itemIdentifier(record);
    // Lambda repeats the whole batch for an identifier that it does not know. This error has the same effect.
    if (identifier === undefined || identifier === "") throw unknownEvent();
    return { record, identifier };
  });
  return { items, isStream: records.every((record) => !("messageId" in record)) };
}

function itemIdentifier(record: LambdaRecord): ItemIdentifier | undefined {
  if ("messageId" in record) return record.messageId;
  if ("kinesis" in record) return record.kinesis.sequenceNumber;
  if ("offset" in record) return { partition: `${record.topic}-${record.partition}`, offset: record.offset };
  return record.dynamodb?.SequenceNumber;
}

function unknownEvent(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "the event is not a batch of SQS, Kinesis, DynamoDB Streams or Kafka: check what triggers the function.",
  );
}
