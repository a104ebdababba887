/** The part of a kafkajs message that is used here, and the keys that it can have. */
import { compositeKey, type Key } from "../../core/key.ts";

type HeaderValue = Uint8Array | string;

/** The part of a message of kafkajs that is used here. */
export interface KafkaRecord {
  readonly key: Uint8Array | null;
  readonly offset: string;
  readonly headers?: { readonly [name: string]: HeaderValue | HeaderValue[] | undefined } | undefined;
}

/** A message and its place: the argument of a consumer's `key` and `work`. Name the message type: `KafkaDelivery<KafkaMessage>`. */
export interface KafkaDelivery<Message extends KafkaRecord = KafkaRecord> {
  /** The topic of the message. */
  readonly topic: string;
  /** The partition of the message. */
  readonly partition: number;
  /** The message, as kafkajs delivers it. */
  readonly message: Message;
}

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The key is a header that the producer set. A message that the producer sends twice has the same key. */
export function headerKey(name: string): (delivery: KafkaDelivery) => string | undefined {
  return ({ message: { headers = {} } }) => {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    const values = new Set((Array.isArray(value) ? value : [value]).map(decodeHeader));
    // Two different values are no key.
    return values.size === 1 ? [...values][0] : undefined;
  };
}

/**
 * The key is the message's place. It stays the same over every rebalance and redelivery. A message that the producer sends
 * twice has two places, and so has a message that is copied to another topic or cluster: it is processed twice.
 */
export function offsetKey({ topic, partition, message }: KafkaDelivery): Key {
  return compositeKey(topic, partition, message.offset);
}

/** Throws on invalid UTF-8: two different byte strings could decode to the same text. */
function decodeHeader(value: HeaderValue | undefined): string | undefined {
  return value === undefined || typeof value === "string" ? value : UTF_8.decode(value);
}
