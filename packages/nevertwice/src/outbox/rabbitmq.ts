/** Delivers messages of the outbox to RabbitMQ, with amqplib. */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isFunction } from "../core/option-checks.ts";
import { publishOnce, type RabbitmqConfirmChannel } from "../events/rabbitmq/publish-once.ts";
import { bodyBytes, type OutboxMessage } from "./message.ts";
import type { Deliver } from "./relay-options.ts";

/** The options of a publication that are used here. */
interface RabbitmqPublishOptions {
  /** The id of the message. */
  readonly messageId?: string;
  /** Whether the message survives a restart of the broker. */
  readonly persistent?: boolean;
  /** Whether a message that no queue takes comes back. */
  readonly mandatory?: boolean;
  /** The media type of the body. */
  readonly contentType?: string;
  /** The topic of the message. */
  readonly type?: string;
  /** The headers of the message. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What `connection.createConfirmChannel()` of amqplib returns. */
export interface RabbitmqOutboxChannel extends RabbitmqConfirmChannel<RabbitmqPublishOptions> {
  /** Tells the listener of each message that came back. */
  on(event: "return", listener: (message: ReturnedMessage) => void): unknown;
}

interface ReturnedMessage {
  readonly properties: { readonly messageId?: unknown };
}

/** Options of `rabbitmqDeliverer`. */
export interface RabbitmqDelivererOptions {
  /** A confirm channel, or a function that returns the current one: amqplib does not reconnect by itself. */
  readonly channel: RabbitmqOutboxChannel | (() => RabbitmqOutboxChannel | Promise<RabbitmqOutboxChannel>);
  /** Default: the default exchange, whose routing key is the name of a queue. */
  readonly exchange?: string | undefined;
  /** Default: the topic of the message. */
  readonly routingKey?: ((message: OutboxMessage) => string) | undefined;
}

/**
 * Publishes each message as persistent, with its id as `messageId`, and waits for the broker's confirmation. A message that
 * no queue takes counts as failed, and is tried again.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import amqplib from "amqplib";
 * import { rabbitmqDeliverer } from "nevertwice/outbox/rabbitmq";
 *
 * const connection = await amqplib.connect("amqp://localhost");
 * export const deliver = rabbitmqDeliverer({ channel: await connection.createConfirmChannel() }); // outbox.relay({ deliver })
 * ```
 */
export function rabbitmqDeliverer(options: RabbitmqDelivererOptions): Deliver {
  checkOptions(options, { channel: () => {}, exchange: isString, routingKey: isFunction });
  const { channel: given, exchange = "", routingKey = ({ topic }) => topic } = options;
  if (typeof given !== "function" && typeof given?.publish !== "function")
    throw new NevertwiceError(
      "options-invalid",
      "channel must be a confirm channel of amqplib, or a function that returns one.",
    );

  return async (message) => {
    const channel = typeof given === "function" ? await given() : given;
    const returned = returnedBy(channel);
    const { bytes, contentType } = bodyBytes(message.body);
    const { id, topic, headers } = message;
    returned.delete(id);
    await publishOnce(
      channel,
      { id, exchange, routingKey: routingKey(message), content: Buffer.from(bytes) },
      { mandatory: true, contentType: headers["content-type"] ?? contentType, type: topic, headers },
    );
    // The broker sends a message back before it confirms it.
    if (returned.delete(id))
      throw new Error("no queue took the message: the exchange has no binding for its routing key");
  };
}

/** The ids of the messages that each channel sent back. */
const returns = new WeakMap<object, Set<string>>();
/** More than any relay has in flight; those of other publishers on the same channel are dropped, oldest first. */
const MAX_RETURNED = 20_000;

function returnedBy(channel: RabbitmqOutboxChannel): Set<string> {
  const known = returns.get(channel);
  if (known !== undefined) return known;
  const ids = new Set<string>();
  channel.on("return", ({ properties }) => {
    ids.add(String(properties.messageId));
    if (ids.size > MAX_RETURNED) for (const oldest of ids) return void ids.delete(oldest);
  });
  returns.set(channel, ids);
  return ids;
}

function isString(name: string, value: unknown): void {
  if (typeof value !== "string") throw new NevertwiceError("options-invalid", `${name} must be a string.`);
}
