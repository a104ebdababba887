/** The events of a consumer. They never contain a key or a message: `keyHash` is the same hash as in the guard's events. */
import type { Delivery, Verdict } from "./delivery.ts";

export type ConsumerEvent =
  | {
      /** The delivery's status. `alarm` is a conflict: one key with two different contents. */
      readonly kind: Exclude<Delivery["status"], "conflict"> | "alarm";
      readonly consumer: string;
      readonly keyHash?: string;
      readonly verdict: Verdict;
      readonly error?: unknown;
    }
  /** A try failed, and another one follows in the same delivery. */
  | {
      readonly kind: "retrying";
      readonly consumer: string;
      readonly tries: number;
      readonly afterMs: number;
      readonly error: unknown;
    };
