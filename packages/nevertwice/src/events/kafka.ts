/**
 * Kafka, by way of kafkajs: the configuration of `run` with which each message of a partition is done once, in order. No
 * offset is committed past a message that is not done, and a message that has to wait makes its own partition wait, and no other.
 */
import { systemTimer } from "../core/clock.ts";
import { settleEach } from "../core/each.ts";
import { compositeKey, type Key } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { checkOptions, isFunction, wholeFrom } from "../core/policy.ts";
import type { Consumer } from "./consumer.ts";
import type { Rejection } from "./delivery.ts";
import { lanesBy } from "./lanes.ts";

type HeaderValue = Uint8Array | string;

/** What is needed of a message of kafkajs. */
export interface KafkaRecord {
  readonly key: Uint8Array | null;
  readonly offset: string;
  readonly headers?: { readonly [name: string]: HeaderValue | HeaderValue[] | undefined } | undefined;
}

/** A message and its place: what a consumer's `key` and `work` are handed. Say which it is: `KafkaDelivery<KafkaMessage>`. */
export interface KafkaDelivery<Message extends KafkaRecord = KafkaRecord> {
  readonly topic: string;
  readonly partition: number;
  readonly message: Message;
}

export interface KafkaOptions<Message extends KafkaRecord = KafkaRecord> {
  /**
   * Puts a rejected message where people look, a dead-letter topic. The partition goes on once this resolves; what it
   * throws is kafkajs's to retry. Without it, the first rejected message stops the consumer.
   */
  readonly onRejected?: ((message: KafkaDelivery<Message>, delivery: Rejection) => unknown) | undefined;
}

export interface KafkaBatchOptions<Message extends KafkaRecord = KafkaRecord> extends KafkaOptions<Message> {
  /** How many messages of a batch are worked on at once; default 1: all in order. With more, those with one Kafka key are. */
  readonly concurrency?: number | undefined;
}

interface Payload {
  heartbeat(): Promise<void>;
  pause(): () => void;
}

interface MessagePayload<Message extends KafkaRecord> extends Payload, KafkaDelivery<Message> {}

interface BatchPayload<Message extends KafkaRecord> extends Payload {
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

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The key of a message is one of its headers: what the producer called it, the same if it was sent twice. */
export function headerKey(name: string): (delivery: KafkaDelivery) => string | undefined {
  return ({ message: { headers = {} } }) => {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    const values = new Set((Array.isArray(value) ? value : [value]).map(textOf));
    // Two names are none.
    return values.size === 1 ? [...values][0] : undefined;
  };
}

/**
 * The key of a message is its place. It stays the same over every rebalance and redelivery; but what the producer sends
 * again has another place, and so has what is copied to another topic or cluster: it is done again.
 */
export function offsetKey({ topic, partition, message }: KafkaDelivery): Key {
  return compositeKey(topic, partition, message.offset);
}

/**
 * For `kafka.run({ ...kafkaMessages(consumer) })`. A message that has to wait pauses its partition, and is told to kafkajs as
 * an error that may be retried: each counts among its `retry.retries`, after which the consumer restarts by itself.
 */
export function kafkaMessages<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  options: KafkaOptions<Message> = {},
): { eachMessage(payload: MessagePayload<Message>): Promise<void> } {
  checkOptions(options, { onRejected: isFunction });
  const deliver = delivering(consumer, options);
  return {
    async eachMessage({ topic, partition, message, heartbeat, pause }) {
      const laterMs = await deliver({ topic, partition, message }, heartbeat);
      if (laterMs === undefined) return;
      rest(pause, laterMs);
      throw failure(`${placeOf({ topic, partition, message })} is to come back in ${laterMs} ms.`, true);
    },
  };
}

/** For `kafka.run({ ...kafkaBatches(consumer) })`, which pauses a partition without an error. */
export function kafkaBatches<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  options: KafkaBatchOptions<Message> = {},
): { eachBatchAutoResolve: false; eachBatch(payload: BatchPayload<Message>): Promise<void> } {
  checkOptions(options, { onRejected: isFunction, concurrency: wholeFrom(1) });
  const { concurrency = 1 } = options;
  const deliver = delivering(consumer, options);

  async function eachBatch(payload: BatchPayload<Message>): Promise<void> {
    const { batch, heartbeat, pause, commitOffsetsIfNecessary, isRunning, isStale } = payload;
    const { topic, partition, messages } = batch;
    const advance = advancing(payload);
    const waits: number[] = [];
    let isHalted = false;

    async function handleLane(lane: readonly number[]): Promise<void> {
      for (const index of lane) {
        if (isHalted || !isRunning() || isStale()) return;
        const laterMs = await deliver({ topic, partition, message: messages[index] as Message }, heartbeat);
        if (laterMs !== undefined) return void waits.push(laterMs);
        advance(index);
        await heartbeat();
        await commitOffsetsIfNecessary();
      }
    }

    const ends = await settleEach(
      lanesOf(messages, concurrency),
      (lane) =>
        handleLane(lane).catch((error: unknown) => {
          isHalted = true;
          throw error;
        }),
      concurrency,
    );
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    if (waits.length > 0) rest(pause, Math.min(...waits));
  }

  return { eachBatchAutoResolve: false, eachBatch };
}

/** Has a message handled. Answers after how long it is to come back; undefined if that is not needed. */
function delivering<Message extends KafkaRecord, T>(
  consumer: Consumer<KafkaDelivery<Message>, T>,
  { onRejected }: KafkaOptions<Message>,
) {
  return async (
    message: KafkaDelivery<Message>,
    heartbeat: () => Promise<void>,
  ): Promise<number | undefined> => {
    const delivery = await consumer.handle(message, { onRenewed: heartbeat });
    if (delivery.verdict === "later") return delivery.afterMs;
    if (delivery.verdict === "acknowledge") return undefined;
    if (onRejected === undefined)
      throw failure(
        `${placeOf(message)} was rejected (${delivery.status}: ${reasonOf(delivery.error)}), and there is no onRejected to take it: the consumer stops here.`,
        false,
      );
    await onRejected(message, delivery);
    return undefined;
  };
}

/** Resolves offsets up to the first message that is not done. */
function advancing<Message extends KafkaRecord>({ batch, resolveOffset, isStale }: BatchPayload<Message>) {
  const { messages } = batch;
  const done = new Set<number>();
  let first = 0;
  return (index: number): void => {
    done.add(index);
    const before = first;
    while (done.has(first)) first++;
    const last = messages[first - 1];
    // Whoever moved the consumer meanwhile knows better where it is to go on.
    if (first > before && last !== undefined && !isStale()) resolveOffset(last.offset);
  };
}

/** The messages, by their indices, that are to be handled one after the other. */
function lanesOf(messages: readonly KafkaRecord[], concurrency: number): number[][] {
  const all = messages.map((_, index) => index);
  if (concurrency === 1) return [all];
  return lanesBy(all, (index) => {
    const key = messages[index]?.key;
    return key === null || key === undefined ? index : Buffer.from(key).toString("latin1");
  });
}

function rest(pause: Payload["pause"], ms: number): void {
  const resume = pause();
  systemTimer.after(ms, () => void harmless(resume), true);
}

function placeOf({ topic, partition, message }: KafkaDelivery): string {
  return `the message at offset ${message.offset} of ${topic}, partition ${partition},`;
}

/** Throws on bytes that are no text: two that differ could be read as one. */
function textOf(value: HeaderValue | undefined): string | undefined {
  return value === undefined || typeof value === "string" ? value : UTF_8.decode(value);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** kafkajs asks an error whether it may be retried. It has no cause: kafkajs would ask that instead. */
function failure(message: string, retriable: boolean): Error {
  return Object.assign(new Error(message), { retriable });
}
