/** nevertwice/outbox: messages that commit with the application's write, and are delivered at least once, in order per key. */
export type { OutboxDatabase } from "./database.ts";
export type { OutboxMessage, OutgoingMessage } from "./message.ts";
export {
  createOutbox,
  OUTBOX_DEFAULTS,
  type Outbox,
  type OutboxOptions,
  type OutboxSettings,
  type SendResult,
} from "./outbox.ts";
export type { Relay } from "./relay.ts";
export {
  type AboutMessage,
  type Deliver,
  type DeliveryContext,
  RELAY_DEFAULTS,
  type RelayEvent,
  type RelayOptions,
} from "./relay-options.ts";
export type { ListQuery, MessagePage, MessageState, MessageView, OutboxFigures } from "./store.ts";
export { permanent, retryAfter } from "./verdict.ts";
