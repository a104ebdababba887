/** The part of a message of @nats-io/jetstream that is used here, and the keys that it can have. */
import { compositeKey, type Key } from "../../core/key.ts";

/** The part of a message of `@nats-io/jetstream` that is used here. */
export interface NatsMessage {
  readonly headers?: { get(name: string): string } | undefined;
  readonly info: { readonly stream: string };
  readonly seq: number;
  /** When the stream stored it. */
  readonly timestampNanos: bigint;
  ack(): void;
  ackAck(): Promise<boolean>;
  nak(afterMs?: number): void;
  term(): void;
  working(): void;
}

/**
 * The id that the publisher gave the message (`Nats-Msg-Id`). Without one, the key is the message's place in the stream: a
 * message that is published twice is then processed twice.
 */
export function messageKey(message: NatsMessage): string | Key {
  const id = messageId(message);
  // Escaped like a key of one part, so that no publisher's id can equal the place of another message.
  return id === undefined ? streamPlace(message) : compositeKey(id).text;
}

/** The id that the publisher gave the message. A message without one is rejected. */
export function messageId({ headers }: NatsMessage): string | undefined {
  return headers?.get("Nats-Msg-Id") || undefined;
}

/** Includes the time, because a stream that is deleted and created again counts from 1. */
export function streamPlace({ info, seq, timestampNanos }: NatsMessage): Key {
  return compositeKey(info.stream, seq, timestampNanos);
}
