/** What a consumer tells whoever watches it. Never a key or a message: `keyHash` is the one that the guard's events have. */
import type { Delivery, Verdict } from "./delivery.ts";

export type ConsumerEvent =
  | {
      /** As the delivery's status; `alarm` is a conflict: one key with two contents. */
      readonly kind: Exclude<Delivery["status"], "conflict"> | "alarm";
      readonly consumer: string;
      readonly keyHash?: string;
      readonly verdict: Verdict;
      readonly error?: unknown;
    }
  /** A try failed, and another follows in the same delivery. */
  | {
      readonly kind: "retrying";
      readonly consumer: string;
      readonly tries: number;
      readonly afterMs: number;
      readonly error: unknown;
    };
