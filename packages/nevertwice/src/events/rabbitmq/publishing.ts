/** Publishing with a message id. RabbitMQ itself takes a message as often as it is sent; whoever consumes it does it once. */
import { type Key, sendingKey } from "../../core/key.ts";

/** What is used of what `connection.createConfirmChannel()` of amqplib makes. */
export interface RabbitmqConfirmChannel<Options> {
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: Options | undefined,
    callback: (error: unknown) => void,
  ): unknown;
}

export interface RabbitmqPublishing {
  /** The same whenever the same message is sent: `attempt.deriveKey("shipped")`, say. */
  readonly id: string | Key;
  /** Default: the one that takes a queue's name for the routing key. */
  readonly exchange?: string | undefined;
  readonly routingKey: string;
  readonly content: Buffer;
}

/**
 * Resolves once the broker has taken the message, and rejects if it has not or nobody knows: then publish it again, with
 * the same id. It is persistent unless `options`, those of amqplib, say otherwise.
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
