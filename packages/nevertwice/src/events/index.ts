/** `nevertwice/events`: a consumer that processes each message once, however often it is delivered. */
export { type Consumer, consumer, type Handling } from "./consumer.ts";
export type { ConsumerEvent } from "./consumer-event.ts";
export type {
  ConsumerGuard,
  ConsumerOptions,
  TransactionConsumerOptions,
  Tried,
} from "./consumer-options.ts";
export type { Delivery, Rejection, Verdict } from "./delivery.ts";
export { RETRY_HORIZONS_MS, type Sender } from "./senders.ts";
