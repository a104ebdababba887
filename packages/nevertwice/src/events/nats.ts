/**
 * NATS JetStream. A message is acknowledged when it is done, negatively acknowledged to come again later, or terminated. Each
 * renewal of the claim reports to the server that work is in progress.
 */
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isBoolean, isFunction, wholeFrom } from "../core/option-checks.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import { createInFlightWork, type Drained, type DrainOptions } from "./in-flight-work.ts";
import type { NatsMessage } from "./nats/message.ts";

export { messageId, messageKey, type NatsMessage, streamPlace } from "./nats/message.ts";
export { type NatsPublisher, publishOnce } from "./nats/publish-once.ts";

/** How a message of JetStream is settled. */
export interface NatsHandling<Message extends NatsMessage> {
  /** Whether to wait until the server confirms the acknowledgement: one more round trip. Default: false. */
  readonly confirm?: boolean | undefined;
  /** Stores a rejected message where operators look, before it is terminated. If it throws, the message comes again. */
  readonly onRejected?: ((message: Message, delivery: Rejection) => unknown) | undefined;
  /** Called with each event. What it throws is ignored. */
  readonly onEvent?: ((event: NatsEvent) => unknown) | undefined;
}

/** Options of `consumeNats`. */
export interface NatsOptions<Message extends NatsMessage> extends NatsHandling<Message> {
  /** What `consume()` of a JetStream consumer returns. */
  readonly messages: AsyncIterable<Message> & {
    /** Ends the consumption. */
    close(): Promise<unknown>;
  };
  /** How many messages are processed at once. Default: 16. */
  readonly concurrency?: number | undefined;
}

/** What a consumption reports to `onEvent`. */
export type NatsEvent =
  | {
      readonly kind: "rejected";
      /** The stream of the message. */
      readonly stream: string;
      /** The sequence number of the message in its stream. */
      readonly sequence: number;
      /** Why the message was rejected, or what went wrong. */
      readonly error: unknown;
    }
  /** The call to the server, or to `onRejected`, failed: the message comes again. */
  | {
      readonly kind: "unanswered";
      readonly stream: string;
      readonly sequence: number;
      readonly error: unknown;
    }
  /** No more messages arrive: they were closed, or failed with the error. */
  | { readonly kind: "ended"; readonly error?: unknown };

/** A running consumption. */
export interface NatsConsumption {
  /** Resolves once no more messages arrive and all started ones have ended. */
  readonly ended: Promise<void>;
  /** Takes no more messages, returns those that have not started, and waits for those that have. */
  close(options?: DrainOptions): Promise<Drained>;
}

const CONCURRENCY = 16;

/** How long to wait before the server sends a rejected message again that `onRejected` could not store. */
const RETRY_REJECTED_MS = 1_000;

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

/**
 * For your own loop or callback: the consumer handles the message, and the server gets the verdict. Never rejects.
 * @throws `options-invalid`
 */
export function natsHandler<Message extends NatsMessage, T>(
  consumer: Pick<Consumer<Message, T>, "handle">,
  options: NatsHandling<Message> = {},
): (message: Message) => Promise<void> {
  checkOptions(options, HANDLING_CHECKS);
  const { confirm = false, onRejected, onEvent } = options;
  const report = (event: NatsEvent) => void harmless(() => onEvent?.(event));
  const place = ({ info, seq }: Message) => ({ stream: info.stream, sequence: seq });

  /** Tells the server the verdict. */
  async function settle(message: Message, delivery: Delivery): Promise<void> {
    switch (delivery.verdict) {
      case "acknowledge":
        if (confirm) await message.ackAck();
        else message.ack();
        return;
      case "later":
        message.nak(delivery.afterMs);
        return;
      case "reject":
        await reject(message, delivery);
    }
  }

  async function reject(message: Message, delivery: Rejection): Promise<void> {
    try {
      await onRejected?.(message, delivery);
    } catch (error) {
      message.nak(RETRY_REJECTED_MS);
      throw error;
    }
    // Without a reason: an older server does not know a termination with a reason, and would send the message again.
    message.term();
    report({ kind: "rejected", ...place(message), error: delivery.error });
  }

  return async (message) => {
    try {
      await settle(message, await consumer.handle(message, { onRenewed: () => message.working() }));
    } catch (error) {
      report({ kind: "unanswered", ...place(message), error });
    }
  };
}

/**
 * Consumes the messages of a JetStream consumer, and starts immediately. Later failures are reported to `onEvent`.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { jetstream } from "@nats-io/jetstream";
 * import { connect } from "@nats-io/transport-node";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { consumeNats, messageKey, type NatsMessage } from "nevertwice/events/nats";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("redis://localhost") });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: messageKey,
 *   work: async (message: NatsMessage) => console.log(message.seq),
 * });
 * const orders = await jetstream(await connect()).consumers.get("ORDERS", "billing");
 * const consumption = consumeNats(billing, { messages: await orders.consume() });
 * process.once("SIGTERM", () => consumption.close());
 * ```
 */
export function consumeNats<Message extends NatsMessage, T>(
  consumer: Pick<Consumer<Message, T>, "handle">,
  options: NatsOptions<Message>,
): NatsConsumption {
  checkOptions(options, CHECKS);
  const { messages, concurrency = CONCURRENCY, ...handling } = options;
  areMessages("messages", messages);
  const handle = natsHandler(consumer, handling);
  const report = (event: NatsEvent) => void harmless(() => handling.onEvent?.(event));
  const inFlight = createInFlightWork(concurrency);

  async function read(): Promise<void> {
    try {
      for await (const message of messages) {
        await inFlight.room();
        if (inFlight.isStopped()) harmless(() => message.nak());
        else inFlight.begin(() => handle(message));
      }
      report({ kind: "ended" });
    } catch (error) {
      report({ kind: "ended", error });
    }
  }

  const reading = read();
  return {
    ended: reading.then(() => inFlight.idle()),
    close(drain) {
      inFlight.stop();
      // Not awaited: it resolves only after the last message was taken, which may never happen.
      harmless(() => messages.close());
      return inFlight.drain(reading, drain);
    },
  };
}

function areMessages(name: string, value: unknown): void {
  const messages = value as Partial<NatsOptions<NatsMessage>["messages"]> | null | undefined;
  const isIterable = typeof messages?.[Symbol.asyncIterator] === "function";
  if (isIterable && typeof messages?.close === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be what consume() of a JetStream consumer returns: await consumer.consume().`,
  );
}
