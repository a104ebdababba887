/** Delivers messages of the outbox to a stream of NATS JetStream. */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isFunction } from "../core/option-checks.ts";
import { type NatsPublisher, publishOnce } from "../events/nats/publish-once.ts";
import { bodyBytes, type OutboxMessage } from "./message.ts";
import type { Deliver } from "./relay-options.ts";

/** The headers of a NATS message, as `headers()` of the NATS client makes them. */
export interface NatsHeaders {
  /** Adds a header. */
  append(name: string, value: string): void;
}

interface NatsPublishOptions {
  /** The id by which JetStream recognises a repetition. */
  readonly msgID?: string;
  /** The headers of the message. */
  // biome-ignore lint/suspicious/noExplicitAny: the client's own type of headers.
  readonly headers?: any;
}

/** Options of `natsDeliverer`. */
export interface NatsDelivererOptions {
  /** What `jetstream(connection)` of `@nats-io/jetstream` returns. */
  readonly js: NatsPublisher<Uint8Array, NatsPublishOptions, unknown>;
  /** Default: the topic of the message. */
  readonly subject?: ((message: OutboxMessage) => string) | undefined;
  /** `headers` of the NATS client. Without it, the headers of a message are not sent. */
  readonly headers?: (() => NatsHeaders) | undefined;
}

/**
 * Publishes each message with its id as `Nats-Msg-Id`, and waits until the stream has stored it. A stream that stored the
 * same id within its duplicate window stores it once.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { jetstream } from "@nats-io/jetstream";
 * import { connect, headers } from "@nats-io/transport-node";
 * import { natsDeliverer } from "nevertwice/outbox/nats";
 *
 * export const deliver = natsDeliverer({ js: jetstream(await connect()), headers }); // outbox.relay({ deliver })
 * ```
 */
export function natsDeliverer(options: NatsDelivererOptions): Deliver {
  checkOptions(options, { js: () => {}, subject: isFunction, headers: isFunction });
  const { js, subject = ({ topic }) => topic, headers: createHeaders } = options;
  if (typeof js?.publish !== "function")
    throw new NevertwiceError("options-invalid", "js must be what jetstream(connection) returns.");

  return async (message) => {
    const headers = createHeaders?.();
    if (headers !== undefined)
      for (const [name, value] of Object.entries(message.headers)) headers.append(name, value);
    const more = headers === undefined ? {} : { headers };
    await publishOnce(js, subject(message), bodyBytes(message.body).bytes, { id: message.id, ...more });
  };
}
