/** RabbitMQ: a queue whose messages are acknowledged when done, given back to come again, or dead-lettered. */
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isFunction, isText, wholeFrom } from "../core/policy.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import { isChannel, type RabbitmqChannel, type RabbitmqMessage } from "./rabbitmq/channel.ts";
import { createUnderWay, type Drained, type DrainOptions } from "./under-way.ts";

export type { RabbitmqChannel, RabbitmqMessage } from "./rabbitmq/channel.ts";
export { publishOnce, type RabbitmqConfirmChannel, type RabbitmqPublishing } from "./rabbitmq/publishing.ts";

export interface RabbitmqOptions<Message extends RabbitmqMessage> {
  /** Of amqplib. It stays yours to close. */
  readonly channel: RabbitmqChannel<Message>;
  readonly queue: string;
  /** How many messages are under way at once; default 16. */
  readonly prefetch?: number | undefined;
  /** How long a message that is to come later is held before it is given back; default 60,000. It keeps its place meanwhile. */
  readonly maxHoldMs?: number | undefined;
  /** Puts a rejected message where people look, for a queue that has no dead-letter exchange. If it fails, the message comes again. */
  readonly onRejected?: ((message: Message, delivery: Rejection) => unknown) | undefined;
  /** Told what becomes of the consuming. What it throws is dropped. */
  readonly onEvent?: ((event: RabbitmqEvent) => unknown) | undefined;
}

export type RabbitmqEvent =
  /** RabbitMQ ended the consumer, as it does when the queue is deleted: no more messages come. */
  | { readonly kind: "cancelled"; readonly queue: string }
  | { readonly kind: "rejected"; readonly queue: string; readonly error: unknown }
  /** The broker, or `onRejected`, could not be told what became of a message: it comes again. */
  | { readonly kind: "unanswered"; readonly queue: string; readonly error: unknown };

export interface RabbitmqConsumption {
  readonly consumerTag: string;
  /** Takes no more messages, gives back those that are held, and waits for those being worked on. */
  close(options?: DrainOptions): Promise<Drained>;
}

const DEFAULTS = { prefetch: 16, maxHoldMs: 60_000 };

const CHECKS: Readonly<Record<string, Check>> = {
  channel: isChannel,
  queue: isText,
  prefetch: wholeFrom(1),
  maxHoldMs: wholeFrom(0),
  onRejected: isFunction,
  onEvent: isFunction,
};

/** The id that the publisher gave the message. One without is rejected: RabbitMQ names none itself. */
export function messageId({ properties }: RabbitmqMessage): string | undefined {
  return typeof properties.messageId === "string" ? properties.messageId : undefined;
}

/** Resolves once RabbitMQ sends messages. Rejects with `options-invalid` on bad options, and with what the channel fails with. */
export async function consumeRabbitmq<Message extends RabbitmqMessage, T>(
  consumer: Pick<Consumer<Message, T>, "handle">,
  options: RabbitmqOptions<Message>,
): Promise<RabbitmqConsumption> {
  checkOptions(options, CHECKS);
  const { channel, queue } = options;
  if (channel === undefined || queue === undefined)
    throw new NevertwiceError(
      "options-invalid",
      "channel or queue is missing: consumeRabbitmq(consumer, { channel, queue }).",
    );
  const { prefetch = DEFAULTS.prefetch, onEvent } = options;
  const closing = new AbortController();
  const underWay = createUnderWay();
  const tell = (event: RabbitmqEvent) => void harmless(() => onEvent?.(event));
  const settle = settling(options, tell, closing.signal);

  async function serve(message: Message): Promise<void> {
    try {
      // What was on its way when we closed is another's.
      if (closing.signal.aborted) channel.nack(message, false, true);
      else await settle(message, await consumer.handle(message));
    } catch (error) {
      // A channel that closed took the message back.
      tell({ kind: "unanswered", queue, error });
    }
  }

  await channel.prefetch(prefetch);
  const { consumerTag } = await channel.consume(
    queue,
    (message) => {
      if (message === null) tell({ kind: "cancelled", queue });
      else underWay.begin(() => serve(message));
    },
    { noAck: false },
  );

  return {
    consumerTag,
    close(drain) {
      closing.abort();
      // A channel that is closed throws: nothing comes over it any more.
      const cancelled = (async () => channel.cancel(consumerTag))();
      return underWay.drain(cancelled, drain);
    },
  };
}

/** Tells RabbitMQ the verdict. Throws if that cannot be. */
function settling<Message extends RabbitmqMessage>(
  { channel, queue, maxHoldMs = DEFAULTS.maxHoldMs, onRejected }: RabbitmqOptions<Message>,
  tell: (event: RabbitmqEvent) => void,
  signal: AbortSignal,
) {
  async function giveBack(message: Message, afterMs: number): Promise<void> {
    // RabbitMQ hands out what it gets back at once.
    await pause(systemTimer, Math.min(afterMs, maxHoldMs), signal);
    channel.nack(message, false, true);
  }

  async function reject(message: Message, delivery: Rejection): Promise<void> {
    try {
      await onRejected?.(message, delivery);
    } catch (error) {
      tell({ kind: "unanswered", queue, error });
      return giveBack(message, REST_MS);
    }
    channel.nack(message, false, false);
    tell({ kind: "rejected", queue, error: delivery.error });
  }

  return async (message: Message, delivery: Delivery): Promise<void> => {
    if (delivery.verdict === "acknowledge") channel.ack(message);
    else if (delivery.verdict === "later") await giveBack(message, delivery.afterMs);
    else await reject(message, delivery);
  };
}

/** Before a rejected message that could not be put anywhere comes again. */
const REST_MS = 1_000;
