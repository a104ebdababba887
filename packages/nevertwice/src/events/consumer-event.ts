/** The events of a consumer. They never contain a key or a message: `keyHash` is the same hash as in the guard's events. */
import type { Delivery, Verdict } from "./delivery.ts";

/** What a consumer reports to `onEvent`. It never contains a key or a message. */
export type ConsumerEvent =
  | {
      /** The delivery's status. `alarm` is a conflict: one key with two different contents. */
      readonly kind: Exclude<Delivery["status"], "conflict"> | "alarm";
      /** The name of the consumer. */
      readonly consumer: string;
      /** The hash of the key, as in the guard's events; absent if the message has no valid key. */
      readonly keyHash?: string;
      /** What the broker was told. */
      readonly verdict: Verdict;
      /** Why the delivery failed, if it did. */
      readonly error?: unknown;
    }
  /** A try failed, and another one follows in the same delivery. */
  | {
      readonly kind: "retrying";
      readonly consumer: string;
      /** How many tries of this delivery have failed. */
      readonly tries: number;
      /** How long the pause before the next try is, in milliseconds. */
      readonly afterMs: number;
      readonly error: unknown;
    };
