/**
 * Kafka, with kafkajs: the configuration of `run` that processes each message of a partition once and in order. No offset is
 * committed past a message that is not done. A message that has to wait pauses only its own partition.
 */

import { settleEach } from "../core/batch.ts";
import { systemTimer } from "../core/clock.ts";
import { harmless } from "../core/observer.ts";
import { checkOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import type { KafkaDelivery, KafkaRecord } from "./kafka/message.ts";
import { groupIntoLanes } from "./lanes.ts";

export { headerKey, type KafkaDelivery, type KafkaRecord, offsetKey } from "./kafka/message.ts";

/** Options of `kafkaMessages`. */
export interface KafkaOptions<Message extends KafkaRecord = KafkaRecord> {
  /**
   * Stores a rejected message where operators look, such as a dead-letter topic. The partition continues once this
   * resolves. If it throws, kafkajs retries. Without it, the first rejected message stops the consumer.
   */
  readonly onRejected?: ((message: KafkaDelivery<Message>, delivery: Rejection) => unknown) | undefined;
}

/** Options of `kafkaBatches`. */
export interface KafkaBatchOptions<Message extends KafkaRecord = KafkaRecord> extends KafkaOptions<Message> {
  /** How many messages of a batch are processed at once. Default: 1, all in order. With more, messages with the same Kafka key stay in order. */
  readonly concurrency?: number | undefined;
}

interface PartitionControls {
  heartbeat(): Promise<void>;
  pause(): () => void;
}

interface MessagePayload<Message extends KafkaRecord> extends PartitionControls, KafkaDelivery<Message> {}

interface BatchPayload<Message extends KafkaRecord> extends PartitionControls {
  readonly batch: {
    readonly topic: string;
    readonly partition: number;
    readonly messages: readonly Message[];
  };
  resolveOffset(offset: string): void;
  commitOffsetsIfNecessary(): Promise<void>;
  isRunning(): boolean;
  isStale(): boolean;
}

/**
 * For `kafka.run({ ...kafkaMessages(consumer) })`. A message that has to wait pauses its partition and throws a retriable
 * error. Each such error counts towards the `retry.retries` of kafkajs, after which the consumer restarts by itself.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Kafka, type KafkaMessage } from "kafkajs";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { type KafkaDelivery, kafkaMessages, offsetKey } from "nevertwice/events/kafka";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: offsetKey,
 *   work: async (delivery: KafkaDelivery<KafkaMessage>) => console.log(delivery.message.value),
 * });
 * const kafka = new Kafka({ brokers: ["localhost:9092"] }).consumer({ groupId: "billing" });
 * await kafka.subscribe({ topic: "orders" });
 * await kafka.run(kafkaMessages(billing));
 * ```
 */
export function kafkaMessages<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  options: KafkaOptions<Message> = {},
): {
  /** What kafkajs calls for each message. */
  eachMessage(payload: MessagePayload<Message>): Promise<void>;
} {
  checkOptions(options, { onRejected: isFunction });
  const handle = createHandler(consumer, options);
  return {
    async eachMessage({ topic, partition, message, heartbeat, pause }) {
      const laterMs = await handle({ topic, partition, message }, heartbeat);
      if (laterMs === undefined) return;
      pauseFor(pause, laterMs);
      throw kafkaError(
        `${describePlace({ topic, partition, message })} is to come back in ${laterMs} ms.`,
        true,
      );
    },
  };
}

/**
 * For `kafka.run({ ...kafkaBatches(consumer) })`, which pauses a partition without an error.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Kafka, type KafkaMessage } from "kafkajs";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { type KafkaDelivery, kafkaBatches, offsetKey } from "nevertwice/events/kafka";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: offsetKey,
 *   work: async (delivery: KafkaDelivery<KafkaMessage>) => console.log(delivery.message.value),
 * });
 * const kafka = new Kafka({ brokers: ["localhost:9092"] }).consumer({ groupId: "billing" });
 * await kafka.subscribe({ topic: "orders" });
 * await kafka.run(kafkaBatches(billing, { concurrency: 8 }));
 * ```
 */
export function kafkaBatches<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  options: KafkaBatchOptions<Message> = {},
): {
  /** The adapter resolves each offset itself, once its message is done. */
  eachBatchAutoResolve: false;
  /** What kafkajs calls for each batch. */
  eachBatch(payload: BatchPayload<Message>): Promise<void>;
} {
  checkOptions(options, { onRejected: isFunction, concurrency: wholeFrom(1) });
  const { concurrency = 1 } = options;
  const handle = createHandler(consumer, options);

  async function eachBatch(payload: BatchPayload<Message>): Promise<void> {
    const { batch, heartbeat, pause, commitOffsetsIfNecessary, isRunning, isStale } = payload;
    const { topic, partition, messages } = batch;
    const advance = createAdvance(payload);
    const waits: number[] = [];
    let isHalted = false;

    async function handleLane(lane: readonly number[]): Promise<void> {
      for (const index of lane) {
        if (isHalted || !isRunning() || isStale()) return;
        const laterMs = await handle({ topic, partition, message: messages[index] as Message }, heartbeat);
        if (laterMs !== undefined) return void waits.push(laterMs);
        advance(index);
        await heartbeat();
        await commitOffsetsIfNecessary();
      }
    }

    const ends = await settleEach(
      createLanes(messages, concurrency),
      (lane) =>
        handleLane(lane).catch((error: unknown) => {
          isHalted = true;
          throw error;
        }),
      concurrency,
    );
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    if (waits.length > 0) pauseFor(pause, Math.min(...waits));
  }

  return { eachBatchAutoResolve: false, eachBatch };
}

/** Handles one message. Returns after how many milliseconds it has to come back, or undefined if it does not. */
function createHandler<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  { onRejected }: KafkaOptions<Message>,
) {
  async function settle(message: KafkaDelivery<Message>, delivery: Delivery): Promise<number | undefined> {
    switch (delivery.verdict) {
      case "acknowledge":
        return undefined;
      case "later":
        return delivery.afterMs;
      case "reject":
        await reject(message, delivery);
        return undefined;
    }
  }

  async function reject(message: KafkaDelivery<Message>, delivery: Rejection): Promise<void> {
    if (onRejected === undefined)
      throw kafkaError(
        `${describePlace(message)} was rejected (${delivery.status}: ${messageFrom(delivery.error)}), and there is no onRejected to store it: the consumer stops here.`,
        false,
      );
    await onRejected(message, delivery);
  }

  return async (message: KafkaDelivery<Message>, heartbeat: () => Promise<void>) =>
    settle(message, await consumer.handle(message, { onRenewed: heartbeat }));
}

/** Resolves the offsets of all messages before the first one that is not done. */
function createAdvance<Message extends KafkaRecord>({
  batch,
  resolveOffset,
  isStale,
}: BatchPayload<Message>) {
  const { messages } = batch;
  const done = new Set<number>();
  let first = 0;
  return (index: number): void => {
    done.add(index);
    const previous = first;
    while (done.has(first)) first++;
    const last = messages[first - 1];
    // A stale batch: the consumer was moved to another offset meanwhile, which must stay.
    if (first > previous && last !== undefined && !isStale()) resolveOffset(last.offset);
  };
}

/** The indices of the messages, grouped by what must be handled in order. */
function createLanes(messages: readonly KafkaRecord[], concurrency: number): number[][] {
  const all = messages.map((_, index) => index);
  if (concurrency === 1) return [all];
  return groupIntoLanes(all, (index) => {
    const key = messages[index]?.key;
    return key === null || key === undefined ? index : Buffer.from(key).toString("latin1");
  });
}

function pauseFor(pause: PartitionControls["pause"], ms: number): void {
  const resume = pause();
  systemTimer.after(ms, () => void harmless(resume), true);
}

function describePlace({ topic, partition, message }: KafkaDelivery): string {
  return `the message at offset ${message.offset} of ${topic}, partition ${partition},`;
}

function messageFrom(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** kafkajs reads `retriable` of an error. No cause is set: kafkajs would read `retriable` of the cause instead. */
function kafkaError(message: string, retriable: boolean): Error {
  return Object.assign(new Error(message), { retriable });
}
