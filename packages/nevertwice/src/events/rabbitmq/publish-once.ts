/** Publishes a message with an id. RabbitMQ stores it as often as it is sent; the consumer processes it once. */
import { type Key, sendingKey } from "../../core/key.ts";

/** The part of what `connection.createConfirmChannel()` of amqplib returns that is used here. */
export interface RabbitmqConfirmChannel<Options> {
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: Options | undefined,
    callback: (error: unknown) => void,
  ): unknown;
}

/** A message to publish, and where to. */
export interface RabbitmqPublishing {
  /** Must be the same whenever the same message is sent, for example `attempt.deriveKey("shipped")`. */
  readonly id: string | Key;
  /** Default: the default exchange, whose routing key is a queue's name. */
  readonly exchange?: string | undefined;
  /** The routing key: the queue's name, if the exchange is the default one. */
  readonly routingKey: string;
  /** The body. */
  readonly content: Buffer;
}

/**
 * Resolves once the broker has confirmed the message. Rejects if it refused the message, or if the confirmation is missing:
 * then publish it again with the same id. The message is persistent unless `options`, those of amqplib, say otherwise.
 * @throws `key-invalid`, `key-missing`
 */
export async function publishOnce<Options extends object>(
  channel: RabbitmqConfirmChannel<Options>,
  { id, exchange = "", routingKey, content }: RabbitmqPublishing,
  options?: Options,
): Promise<void> {
  const messageId = sendingKey(id, "the id of the message");
  await new Promise<void>((resolve, reject) => {
    const all = { persistent: true, ...options, messageId } as unknown as Options;
    channel.publish(exchange, routingKey, content, all, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(error);
    });
  });
}
