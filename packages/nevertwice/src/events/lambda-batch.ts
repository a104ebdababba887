/**
 * AWS Lambda, triggered by a queue or a stream. Each record of a batch is processed once. The response lists the records
 * that must come again (`ReportBatchItemFailures`), so that one failure does not repeat the records that are done.
 */
import { compositeKey, type Key } from "../core/key.ts";
import { checkOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery } from "./delivery.ts";
import {
  type ItemIdentifier,
  type LambdaBatchEvent,
  type LambdaRecord,
  type LambdaSqsRecord,
  type Lane,
  toLanes,
} from "./lambda-batch/records.ts";
import { KEY_ATTRIBUTE } from "./sqs/message.ts";

export type {
  ItemIdentifier,
  LambdaBatchEvent,
  LambdaDynamodbRecord,
  LambdaKafkaRecord,
  LambdaKinesisRecord,
  LambdaRecord,
  LambdaSqsRecord,
} from "./lambda-batch/records.ts";

/** Options of `lambdaBatch`. */
export interface LambdaBatchOptions<Message, T = unknown> {
  /** How many records are processed at once. Default: 10. Records that must stay in order do. */
  readonly concurrency?: number | undefined;
  /** With less time left than this, no further record is started, and the remaining ones are reported. Default: 1 s. */
  readonly reserveMs?: number | undefined;
  /**
   * Stores a rejected record: once it resolves, the record counts as done. Default: the record is reported like any other
   * failure. Lambda retries it up to its own limit, then moves it to the dead-letter queue or destination that you set up.
   */
  readonly onRejected?: ((record: Message, delivery: Delivery<T>) => unknown) | undefined;
}

/** The defaults of `LambdaBatchOptions`. */
export const LAMBDA_BATCH_DEFAULTS = { concurrency: 10, reserveMs: 1_000 } as const;

/** What the function returns to Lambda: the records that it must send again. */
export interface LambdaBatchAnswer {
  /** Empty if every record is done. */
  batchItemFailures: {
    /** The id or the sequence number of the record, or its place in Kafka. */
    itemIdentifier: ItemIdentifier;
  }[];
}

/** The part of the Lambda context that is used here. */
export interface LambdaBatchContext {
  getRemainingTimeInMillis(): number;
}

/** A shorter lease could not be renewed in time. */
const MIN_LEASE_MS = 1_000;

/**
 * Returns the function to export. It throws, which repeats the whole batch, only for an event that is not a known batch. No
 * lease is longer than the remaining run time of the function: a killed function holds its keys no longer than that.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { type LambdaSqsRecord, lambdaBatch, recordKey } from "nevertwice/events/lambda-batch";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() }); // in production: dynamodbStore
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: recordKey,
 *   work: async (record: LambdaSqsRecord) => console.log(record.body),
 * });
 * export const handler = lambdaBatch(billing);
 * ```
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

  /** Returns whether Lambda may forget the record. */
  async function settle(record: Message, delivery: Delivery<T>): Promise<boolean> {
    switch (delivery.verdict) {
      case "acknowledge":
        return true;
      case "later":
        return false;
      case "reject":
        return reject(record, delivery);
    }
  }

  async function reject(record: Message, delivery: Delivery<T>): Promise<boolean> {
    if (onRejected === undefined) return false;
    try {
      await onRejected(record, delivery);
      return true;
    } catch {
      return false;
    }
  }

  /** One record of each lane at a time, so that the records of a lane are handled in order. */
  async function handleRound(round: readonly LaneProgress<Message>[], remainingMs: number): Promise<void> {
    const records = round.map(({ lane, done }) => (lane.items[done] as LaneItem<Message>).record);
    const maxLeaseMs = Math.max(MIN_LEASE_MS, Math.ceil(remainingMs));
    const deliveries = await consumer.handleBatch(records, { concurrency, maxLeaseMs });
    await Promise.all(
      round.map(async (progress, index) => {
        const record = records[index] as Message;
        if (await settle(record, deliveries[index] as Delivery<T>)) progress.done++;
        else progress.isStopped = true;
      }),
    );
  }

  return async (event, context) => {
    const all = toLanes(event).map((lane): LaneProgress<Message> => ({ lane, done: 0, isStopped: false }));
    for (;;) {
      const remainingMs = context?.getRemainingTimeInMillis() ?? Number.POSITIVE_INFINITY;
      const left = all.filter(({ lane, done, isStopped }) => !isStopped && done < lane.items.length);
      if (left.length === 0 || remainingMs < reserveMs) break;
      await handleRound(left.slice(0, concurrency), remainingMs);
    }
    return { batchItemFailures: all.flatMap(toItemFailures) };
  };
}

type LaneItem<Message> = Lane<Message>["items"][number];

interface LaneProgress<Message> {
  readonly lane: Lane<Message>;
  /** How many of its records are done, counted from the first. */
  done: number;
  isStopped: boolean;
}

function toItemFailures<Message>({ lane: { items, isStream }, done }: LaneProgress<Message>) {
  const failed = items.slice(done, isStream ? done + 1 : items.length);
  return failed.map(({ identifier }) => ({ itemIdentifier: identifier }));
}

/**
 * The key that the record carries: for SQS the deduplication id, or the message id if there is none; for a stream the event
 * id; for Kafka topic, partition and offset. Each is the same when Lambda sends the record again. A producer that sends twice
 * creates two records, which can share only the deduplication id. An id in the message itself is a better key.
 */
export function recordKey(record: LambdaRecord): string | Key | undefined {
  if ("offset" in record) return compositeKey(record.topic, record.partition, record.offset);
  if ("messageId" in record) {
    const { MessageDeduplicationId: id } = record.attributes;
    // Escaped like a key of one part, so that no producer's id can equal the place of a Kafka record.
    return id === undefined ? record.messageId : compositeKey(id).text;
  }
  return record.eventID;
}

/** The key that `sendOnce` of nevertwice/events/sqs gave the message. */
export function sentKey(record: LambdaSqsRecord): string | undefined {
  return record.messageAttributes[KEY_ATTRIBUTE]?.stringValue;
}
