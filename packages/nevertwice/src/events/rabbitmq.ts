/** RabbitMQ. A message is acknowledged when it is done, returned to the queue to come again later, or dead-lettered. */
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isFunction, isText, wholeFrom } from "../core/option-checks.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import { createInFlightWork, type Drained, type DrainOptions } from "./in-flight-work.ts";
import { isChannel, type RabbitmqChannel, type RabbitmqMessage } from "./rabbitmq/channel.ts";

export type { RabbitmqChannel, RabbitmqMessage } from "./rabbitmq/channel.ts";
export {
  publishOnce,
  type RabbitmqConfirmChannel,
  type RabbitmqPublishing,
} from "./rabbitmq/publish-once.ts";

/** Options of `consumeRabbitmq`. */
export interface RabbitmqOptions<Message extends RabbitmqMessage> {
  /** A channel of amqplib. You close it. */
  readonly channel: RabbitmqChannel<Message>;
  /** The queue to consume. It must exist. */
  readonly queue: string;
  /** How many messages are processed at once. Default: 16. */
  readonly prefetch?: number | undefined;
  /** How long a message that is to come later is held before it is returned to the queue. Default: 60,000. It counts towards `prefetch` meanwhile. */
  readonly maxHoldMs?: number | undefined;
  /** Stores a rejected message where operators look, for a queue without a dead-letter exchange. If it throws, the message comes again. */
  readonly onRejected?: ((message: Message, delivery: Rejection) => unknown) | undefined;
  /** Called with each event. What it throws is ignored. */
  readonly onEvent?: ((event: RabbitmqEvent) => unknown) | undefined;
}

/** What a consumption reports to `onEvent`. */
export type RabbitmqEvent =
  /** RabbitMQ cancelled the consumer, as it does when the queue is deleted: no more messages arrive. */
  | {
      readonly kind: "cancelled";
      /** The queue that is no longer consumed. */
      readonly queue: string;
    }
  | {
      readonly kind: "rejected";
      readonly queue: string;
      /** What went wrong. */
      readonly error: unknown;
    }
  /** The call to the broker, or to `onRejected`, failed: the message comes again. */
  | { readonly kind: "unanswered"; readonly queue: string; readonly error: unknown };

/** A running consumption. */
export interface RabbitmqConsumption {
  /** The tag that RabbitMQ knows the consumer by. */
  readonly consumerTag: string;
  /** Takes no more messages, returns those that are held, and waits for those that have started. */
  close(options?: DrainOptions): Promise<Drained>;
}

const DEFAULTS = { prefetch: 16, maxHoldMs: 60_000 };

/** How long to wait before a rejected message that `onRejected` could not store is returned to the queue. */
const RETRY_REJECTED_MS = 1_000;

const CHECKS: Readonly<Record<string, Check>> = {
  channel: isChannel,
  queue: isText,
  prefetch: wholeFrom(1),
  maxHoldMs: wholeFrom(0),
  onRejected: isFunction,
  onEvent: isFunction,
};

/** The id that the publisher gave the message. A message without one is rejected: RabbitMQ assigns none itself. */
export function messageId({ properties }: RabbitmqMessage): string | undefined {
  return typeof properties.messageId === "string" ? properties.messageId : undefined;
}

/**
 * Consumes the messages of a queue. Resolves once RabbitMQ sends them. Rejects with `options-invalid` on bad options, and with errors of the channel.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import amqplib from "amqplib";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { consumeRabbitmq, messageId, type RabbitmqMessage } from "nevertwice/events/rabbitmq";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: messageId,
 *   work: async (message: RabbitmqMessage) => console.log(message.content),
 * });
 * const channel = await (await amqplib.connect("amqp://localhost")).createChannel();
 * const consumption = await consumeRabbitmq(billing, { channel, queue: "orders" });
 * process.once("SIGTERM", () => consumption.close());
 * ```
 */
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
  const inFlight = createInFlightWork();
  const report = (event: RabbitmqEvent) => void harmless(() => onEvent?.(event));
  const settle = createSettle(options, report, closing.signal);

  async function handle(message: Message): Promise<void> {
    try {
      // A message that was on its way when we closed goes back to the queue.
      if (closing.signal.aborted) channel.nack(message, false, true);
      else await settle(message, await consumer.handle(message));
    } catch (error) {
      // The channel closed, which returned the message to the queue.
      report({ kind: "unanswered", queue, error });
    }
  }

  await channel.prefetch(prefetch);
  const { consumerTag } = await channel.consume(
    queue,
    (message) => {
      if (message === null) report({ kind: "cancelled", queue });
      else inFlight.begin(() => handle(message));
    },
    { noAck: false },
  );

  return {
    consumerTag,
    close(drain) {
      closing.abort();
      // A closed channel throws here. It delivers no more messages either.
      const cancelled = (async () => channel.cancel(consumerTag))();
      return inFlight.drain(cancelled, drain);
    },
  };
}

/** Tells RabbitMQ the verdict. Throws if the channel fails. */
function createSettle<Message extends RabbitmqMessage>(
  { channel, queue, maxHoldMs = DEFAULTS.maxHoldMs, onRejected }: RabbitmqOptions<Message>,
  report: (event: RabbitmqEvent) => void,
  signal: AbortSignal,
) {
  async function giveBack(message: Message, afterMs: number): Promise<void> {
    // RabbitMQ delivers a returned message again immediately, so the message is held here first.
    await pause(systemTimer, Math.min(afterMs, maxHoldMs), signal);
    channel.nack(message, false, true);
  }

  async function reject(message: Message, delivery: Rejection): Promise<void> {
    try {
      await onRejected?.(message, delivery);
    } catch (error) {
      report({ kind: "unanswered", queue, error });
      return giveBack(message, RETRY_REJECTED_MS);
    }
    channel.nack(message, false, false);
    report({ kind: "rejected", queue, error: delivery.error });
  }

  return async (message: Message, delivery: Delivery): Promise<void> => {
    switch (delivery.verdict) {
      case "acknowledge":
        channel.ack(message);
        return;
      case "later":
        return giveBack(message, delivery.afterMs);
      case "reject":
        return reject(message, delivery);
    }
  };
}
