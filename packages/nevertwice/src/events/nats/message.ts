/** What is used of a message of @nats-io/jetstream, and the keys that can be had of it. */
import { compositeKey, type Key } from "../../core/key.ts";

export interface NatsMessage {
  readonly headers?: { get(name: string): string } | undefined;
  readonly info: { readonly stream: string };
  readonly seq: number;
  /** When the stream took it. */
  readonly timestampNanos: bigint;
  ack(): void;
  ackAck(): Promise<boolean>;
  nak(afterMs?: number): void;
  term(): void;
  working(): void;
}

/**
 * The id that the publisher gave the message (`Nats-Msg-Id`). One without is named by its place in the stream: what was
 * published twice is then done twice.
 */
export function messageKey(message: NatsMessage): string | Key {
  const id = messageId(message);
  // Escaped like a key of one part, so that no publisher's id is the place of another message.
  return id === undefined ? streamPlace(message) : compositeKey(id).text;
}

/** The id that the publisher gave the message, which without one is rejected. */
export function messageId({ headers }: NatsMessage): string | undefined {
  return headers?.get("Nats-Msg-Id") || undefined;
}

/** The time is part of it because a stream that is made anew counts from 1 again. */
export function streamPlace({ info, seq, timestampNanos }: NatsMessage): Key {
  return compositeKey(info.stream, seq, timestampNanos);
}
