/** The parts of a channel and of a message of amqplib that are used here. */
import { NevertwiceError } from "../../core/errors.ts";

/** The part of a message of amqplib that is used here. */
export interface RabbitmqMessage {
  readonly content: Uint8Array;
  readonly fields: { readonly deliveryTag: number; readonly redelivered: boolean };
  readonly properties: {
    readonly messageId?: unknown;
    readonly headers?: Readonly<Record<string, unknown>> | undefined;
  };
}

/** The part of a channel of amqplib that is used here. */
export interface RabbitmqChannel<Message extends RabbitmqMessage = RabbitmqMessage> {
  prefetch(count: number): Promise<unknown>;
  consume(
    queue: string,
    onMessage: (message: Message | null) => void,
    options: { noAck: false },
  ): Promise<{ readonly consumerTag: string }>;
  cancel(consumerTag: string): Promise<unknown>;
  ack(message: Message): void;
  nack(message: Message, allUpTo: boolean, requeue: boolean): void;
}

const METHODS = ["prefetch", "consume", "cancel", "ack", "nack"] as const;

export function isChannel(name: string, value: unknown): void {
  const channel = value as Partial<RabbitmqChannel> | null;
  if (METHODS.every((method) => typeof channel?.[method] === "function")) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a channel of amqplib: await connection.createChannel().`,
  );
}
