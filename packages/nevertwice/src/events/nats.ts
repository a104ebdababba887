/** NATS JetStream: messages that are acknowledged when done, sent again later, or terminated; in progress as long as their claim is renewed. */
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isBoolean, isFunction, wholeFrom } from "../core/policy.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import type { NatsMessage } from "./nats/message.ts";
import { createUnderWay, type Drained, type DrainOptions } from "./under-way.ts";

export { messageId, messageKey, type NatsMessage, streamPlace } from "./nats/message.ts";
export { type NatsPublisher, publishOnce } from "./nats/publishing.ts";

export interface NatsHandling<Message extends NatsMessage> {
  /** Whether the server is to say that it has the acknowledgement: one more round trip. Default: false. */
  readonly confirm?: boolean | undefined;
  /** Puts a rejected message where people look, before it is terminated. If it fails, the message comes again. */
  readonly onRejected?: ((message: Message, delivery: Rejection) => unknown) | undefined;
  /** Told what becomes of the consuming. What it throws is dropped. */
  readonly onEvent?: ((event: NatsEvent) => unknown) | undefined;
}

export interface NatsOptions<Message extends NatsMessage> extends NatsHandling<Message> {
  /** What `consume()` of a JetStream consumer answers. */
  readonly messages: AsyncIterable<Message> & { close(): Promise<unknown> };
  /** How many messages are under way at once; default 16. */
  readonly concurrency?: number | undefined;
}

export type NatsEvent =
  | { readonly kind: "rejected"; readonly stream: string; readonly sequence: number; readonly error: unknown }
  /** The server, or `onRejected`, could not be told what became of a message: it comes again. */
  | {
      readonly kind: "unanswered";
      readonly stream: string;
      readonly sequence: number;
      readonly error: unknown;
    }
  /** No more messages come: they were closed, or failed with the error. */
  | { readonly kind: "ended"; readonly error?: unknown };

export interface NatsConsumption {
  /** Resolves once no more messages come, and those under way have ended. */
  readonly ended: Promise<void>;
  /** Takes no more messages, gives back those that have not begun, and waits for those being worked on. */
  close(options?: DrainOptions): Promise<Drained>;
}

const CONCURRENCY = 16;

/** Before a rejected message that could not be put anywhere comes again. */
const REST_MS = 1_000;

const HANDLING_CHECKS: Readonly<Record<string, Check>> = {
  confirm: isBoolean,
  onRejected: isFunction,
  onEvent: isFunction,
};

const CHECKS: Readonly<Record<string, Check>> = {
  ...HANDLING_CHECKS,
  messages: areMessages,
  concurrency: wholeFrom(1),
};

/** For a loop or a callback of your own: has a message handled, and tells the server the verdict. Never rejects. */
export function natsHandler<Message extends NatsMessage, T>(
  consumer: Pick<Consumer<Message, T>, "handle">,
  options: NatsHandling<Message> = {},
): (message: Message) => Promise<void> {
  checkOptions(options, HANDLING_CHECKS);
  const { confirm = false, onRejected, onEvent } = options;
  const tell = (event: NatsEvent) => void harmless(() => onEvent?.(event));
  const placeOf = ({ info, seq }: Message) => ({ stream: info.stream, sequence: seq });

  async function settle(message: Message, delivery: Delivery): Promise<void> {
    if (delivery.verdict === "later") message.nak(delivery.afterMs);
    else if (delivery.verdict === "reject") await reject(message, delivery);
    else if (confirm) await message.ackAck();
    else message.ack();
  }

  async function reject(message: Message, delivery: Rejection): Promise<void> {
    try {
      await onRejected?.(message, delivery);
    } catch (error) {
      message.nak(REST_MS);
      throw error;
    }
    // Without a reason: an older server takes the word for none of its own, and would send the message again.
    message.term();
    tell({ kind: "rejected", ...placeOf(message), error: delivery.error });
  }

  return async (message) => {
    try {
      await settle(message, await consumer.handle(message, { onRenewed: () => message.working() }));
    } catch (error) {
      tell({ kind: "unanswered", ...placeOf(message), error });
    }
  };
}

/** Starts at once. Fails with `options-invalid` on bad options; what fails later is told to `onEvent`. */
export function consumeNats<Message extends NatsMessage, T>(
  consumer: Pick<Consumer<Message, T>, "handle">,
  options: NatsOptions<Message>,
): NatsConsumption {
  checkOptions(options, CHECKS);
  const { messages, concurrency = CONCURRENCY, ...handling } = options;
  areMessages("messages", messages);
  const handle = natsHandler(consumer, handling);
  const tell = (event: NatsEvent) => void harmless(() => handling.onEvent?.(event));
  const underWay = createUnderWay(concurrency);

  async function read(): Promise<void> {
    try {
      for await (const message of messages) {
        await underWay.room();
        if (underWay.isStopped()) harmless(() => message.nak());
        else underWay.begin(() => handle(message));
      }
      tell({ kind: "ended" });
    } catch (error) {
      tell({ kind: "ended", error });
    }
  }

  const reading = read();
  return {
    ended: reading.then(() => underWay.idle()),
    close(drain) {
      underWay.stop();
      // What it answers is not waited for: it comes only after the last message was taken, which may be never.
      harmless(() => messages.close());
      return underWay.drain(reading, drain);
    },
  };
}

function areMessages(name: string, value: unknown): void {
  const messages = value as Partial<NatsOptions<NatsMessage>["messages"]> | null | undefined;
  const isIterable = typeof messages?.[Symbol.asyncIterator] === "function";
  if (isIterable && typeof messages?.close === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be what consume() of a JetStream consumer answers: await consumer.consume().`,
  );
}
