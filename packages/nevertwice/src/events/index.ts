/** Messages that are sent more than once, done once: a consumer, and what its adapters share. */
export { type Consumer, consumer, type Handling } from "./consumer.ts";
export type { ConsumerEvent } from "./consumer-event.ts";
export type { ConsumerGuard, ConsumerOptions, Tried } from "./consumer-settings.ts";
export type { Delivery, Rejection, Verdict } from "./delivery.ts";
export { RETRY_HORIZONS_MS, type Sender } from "./senders.ts";
