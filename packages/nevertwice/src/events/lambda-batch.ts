/**
 * AWS Lambda, triggered by a queue or a stream: each record of a batch is done once, and the answer says which of them
 * are to come again (`ReportBatchItemFailures`), so that one that fails does not bring back those that are done.
 */
import { compositeKey, type Key } from "../core/key.ts";
import { checkOptions, isFunction, wholeFrom } from "../core/policy.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery } from "./delivery.ts";
import {
  type ItemIdentifier,
  type LambdaBatchEvent,
  type LambdaRecord,
  type LambdaSqsRecord,
  type Lane,
  lanesOf,
} from "./lambda-batch/records.ts";

export type {
  ItemIdentifier,
  LambdaBatchEvent,
  LambdaDynamodbRecord,
  LambdaKafkaRecord,
  LambdaKinesisRecord,
  LambdaRecord,
  LambdaSqsRecord,
} from "./lambda-batch/records.ts";

export interface LambdaBatchOptions<Message, T = unknown> {
  /** How many records are under way at once; default 10. Those that must stay in order do. */
  readonly concurrency?: number | undefined;
  /** With less time than this left no further record is begun, and those left over are reported. Default 1 s. */
  readonly reserveMs?: number | undefined;
  /**
   * Takes what sending again cannot help: once it answers, the record counts as done. Default: it is reported like any
   * failure, and Lambda sends it again until its own limit, then to the dead-letter queue or destination that you gave.
   */
  readonly onRejected?: ((record: Message, delivery: Delivery<T>) => unknown) | undefined;
}

export const LAMBDA_BATCH_DEFAULTS = { concurrency: 10, reserveMs: 1_000 } as const;

export interface LambdaBatchAnswer {
  batchItemFailures: { itemIdentifier: ItemIdentifier }[];
}

/** What is used of the context that Lambda hands to a function. */
export interface LambdaBatchContext {
  getRemainingTimeInMillis(): number;
}

/** A shorter lease could not be renewed in time. */
const LEAST_LEASE_MS = 1_000;

/**
 * The function to export. It throws, and so brings the whole batch back, only for an event that it does not know. No
 * lease is longer than the function may still run: one that is killed holds its keys no longer than that.
 */
export function lambdaBatch<Message extends LambdaRecord, T>(
  consumer: Pick<Consumer<Message, T>, "handleBatch">,
  options: LambdaBatchOptions<Message, T> = {},
): (event: LambdaBatchEvent<Message>, context?: LambdaBatchContext) => Promise<LambdaBatchAnswer> {
  checkOptions(options, { concurrency: wholeFrom(1), reserveMs: wholeFrom(0), onRejected: isFunction });
  const {
    concurrency = LAMBDA_BATCH_DEFAULTS.concurrency,
    reserveMs = LAMBDA_BATCH_DEFAULTS.reserveMs,
    onRejected,
  } = options;

  async function isDone(record: Message, delivery: Delivery<T>): Promise<boolean> {
    if (delivery.verdict !== "reject" || onRejected === undefined) return delivery.verdict === "acknowledge";
    try {
      await onRejected(record, delivery);
      return true;
    } catch {
      return false;
    }
  }

  /** One record of each lane at a time, so that those with one key can be done one after the other. */
  async function handleRound(round: readonly Progress<Message>[], remainingMs: number): Promise<void> {
    const records = round.map(({ lane, done }) => (lane.items[done] as Item<Message>).record);
    const maxLeaseMs = Math.max(LEAST_LEASE_MS, Math.ceil(remainingMs));
    const deliveries = await consumer.handleBatch(records, { concurrency, maxLeaseMs });
    await Promise.all(
      round.map(async (progress, index) => {
        const record = records[index] as Message;
        if (await isDone(record, deliveries[index] as Delivery<T>)) progress.done++;
        else progress.isStopped = true;
      }),
    );
  }

  return async (event, context) => {
    const all = lanesOf(event).map((lane): Progress<Message> => ({ lane, done: 0, isStopped: false }));
    for (;;) {
      const remainingMs = context?.getRemainingTimeInMillis() ?? Number.POSITIVE_INFINITY;
      const left = all.filter(({ lane, done, isStopped }) => !isStopped && done < lane.items.length);
      if (left.length === 0 || remainingMs < reserveMs) break;
      await handleRound(left.slice(0, concurrency), remainingMs);
    }
    return { batchItemFailures: all.flatMap(failuresOf) };
  };
}

type Item<Message> = Lane<Message>["items"][number];

interface Progress<Message> {
  readonly lane: Lane<Message>;
  /** How many of its records are done, from the first on. */
  done: number;
  isStopped: boolean;
}

function failuresOf<Message>({ lane: { items, isStream }, done }: Progress<Message>) {
  const failed = items.slice(done, isStream ? done + 1 : items.length);
  return failed.map(({ identifier }) => ({ itemIdentifier: identifier }));
}

/**
 * The key that a record has of its own: SQS's deduplication id or else its message id, the event id of a stream, Kafka's
 * topic, partition and offset. All of these are the same when Lambda sends a record again; a producer that sends twice
 * makes two records, and of those only the deduplication id can be the same. Better is an id in the message.
 */
export function recordKey(record: LambdaRecord): string | Key | undefined {
  if ("offset" in record) return compositeKey(record.topic, record.partition, record.offset);
  if ("messageId" in record) {
    const { MessageDeduplicationId: id } = record.attributes;
    // Escaped like a key of one part, so that no producer's id is the place of a record of Kafka.
    return id === undefined ? record.messageId : compositeKey(id).text;
  }
  return record.eventID;
}

/** The key that `sendOnce` of nevertwice/events/sqs gave the message. */
export function sentKey(record: LambdaSqsRecord): string | undefined {
  return record.messageAttributes["idempotency-key"]?.stringValue;
}
