/** CloudEvents, each processed once. `source` and `id` together are the key, in every content mode. */

import { requireGuard } from "../core/argument-checks.ts";
import type { DatabaseHandle } from "../core/database-handle.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { eventKey } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { type Check, isFunction, wholeFrom } from "../core/option-checks.ts";
import { type CloudEvent, toCloudEvent } from "./cloudevents/event.ts";
import { type ReadEvent, readEvents } from "./cloudevents/http.ts";
import { createConsumer } from "./consumer.ts";
import type {
  AnyConsumerOptions,
  ConsumerGuard,
  ConsumerOptions,
  TransactionConsumerOptions,
} from "./consumer-options.ts";
import type { Delivery } from "./delivery.ts";
import { ANSWER_CHECKS, type AnswerOptions, type HttpAnswer, refusal, toHttpAnswer } from "./http-answer.ts";
import { createReceiver, type Received, type Receiver } from "./receiver.ts";

export type { CloudEvent } from "./cloudevents/event.ts";
export type { HttpAnswer } from "./http-answer.ts";
export type { Incoming, IncomingHeaders, Received, Receiver } from "./receiver.ts";

/** Options of `cloudEvents`: those of the consumer, and how HTTP requests are answered. */
export interface CloudEventsOptions<T> extends Omit<ConsumerOptions<CloudEvent, T>, "key">, AnswerOptions {
  /** Returns whether the request comes from the sender. Default: not verified here, so verify it before. */
  readonly verify?: ((received: Received) => boolean | PromiseLike<boolean>) | undefined;
  /**
   * The largest body that is read, in bytes. A larger one is answered with 413.
   * @default 1_048_576 (1 MiB)
   */
  readonly maxBodyBytes?: number | undefined;
}

/** The options of a receiver whose work commits in one transaction with the record of its event (see `consumer`). */
export interface TransactionCloudEventsOptions<T, Handle extends DatabaseHandle>
  extends Omit<CloudEventsOptions<T>, "work" | "transaction">,
    Pick<TransactionConsumerOptions<CloudEvent, T, Handle>, "transaction" | "work"> {}

/** Receives CloudEvents over HTTP, and from anywhere else. */
export interface CloudEventsReceiver<T> extends Receiver {
  /** Handles an event that did not come over HTTP, but for example from a queue. Never rejects. */
  handleEvent(event: unknown): Promise<Delivery<T>>;
}

/** The defaults of `CloudEventsOptions`. */
export const CLOUDEVENTS_DEFAULTS = { maxBodyBytes: 1_048_576 } as const;

const CLOUDEVENTS_CHECKS: Readonly<Record<string, Check>> = {
  ...ANSWER_CHECKS,
  verify: isFunction,
  maxBodyBytes: wholeFrom(0),
  scope: isFunction,
  fingerprint: isFunction,
  work: isFunction,
  key() {
    throw new NevertwiceError(
      "options-invalid",
      "key is not an option here: an event's source and id are its key.",
    );
  },
};

/**
 * The same for work that writes in a transaction of `options.transaction`, and gets it as its first argument.
 * @throws `options-invalid`
 */
export function cloudEvents<T, Handle extends DatabaseHandle>(
  guard: ConsumerGuard,
  options: TransactionCloudEventsOptions<T, Handle>,
): CloudEventsReceiver<T>;
/**
 * Receives CloudEvents, each processed once: their `source` and `id` are the key. It reads all content modes.
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { cloudEvents } from "nevertwice/events/cloudevents";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const receive = cloudEvents(guard, { name: "billing", work: async (event) => console.log(event.type) });
 * const event = { specversion: "1.0", source: "/shop", id: "17", type: "order.paid" };
 * const headers = { "content-type": "application/cloudevents+json" };
 * await receive(new Request("https://shop.example/events", { method: "POST", headers, body: JSON.stringify(event) }));
 * ```
 */
export function cloudEvents<T = unknown>(
  guard: ConsumerGuard,
  options: CloudEventsOptions<T>,
): CloudEventsReceiver<T>;
export function cloudEvents<T>(
  guard: ConsumerGuard,
  options: Omit<CloudEventsOptions<T>, "work" | "transaction"> &
    Pick<AnyConsumerOptions<CloudEvent, T>, "transaction" | "work">,
): CloudEventsReceiver<T> {
  requireGuard(guard, "cloudEvents(guard, { name, work })");
  const given: Readonly<Record<string, unknown>> = { ...options };
  for (const [name, check] of Object.entries(CLOUDEVENTS_CHECKS)) {
    if (given[name] !== undefined) check(name, given[name]);
  }
  const {
    verify,
    maxBodyBytes = CLOUDEVENTS_DEFAULTS.maxBodyBytes,
    onRejected,
    scope,
    fingerprint,
    work,
    ...rest
  } = options;
  // An invalid event throws when its key is read, and the consumer refuses it.
  const inner = createConsumer<ReadEvent, T>(guard, {
    ...rest,
    key: (read) => eventKey(read()),
    scope: scope && ((read) => scope(read())),
    fingerprint: fingerprint && ((read) => fingerprint(read())),
    work: work && readingFirst(work, rest.transaction !== undefined),
  });

  const refuse = (error: NevertwiceError): HttpAnswer => {
    harmless(() => options.onEvent?.({ kind: "refused", consumer: inner.name, verdict: "reject", error }));
    return refusal(error);
  };

  const receiver = createReceiver(maxBodyBytes, async (received, platform) => {
    if (verify !== undefined && (await verify(received)) !== true)
      return refuse(new NevertwiceError("signature-invalid", "the request does not come from the sender."));
    let events: readonly ReadEvent[];
    try {
      events = readEvents(received);
    } catch (error) {
      if (!isNevertwiceError(error)) throw error;
      return refuse(error);
    }
    const deliveries = await inner.handleBatch(events.map(once), platform);
    return toHttpAnswer(worstDelivery(deliveries), { onRejected });
  });

  return Object.assign(receiver, {
    handleEvent: (event: unknown) => inner.handle(once(() => toCloudEvent(event))),
  });
}

/** The work with the event in place of its reader. In a transaction, that comes first. */
function readingFirst<T>(
  work: (...args: never[]) => T | PromiseLike<T>,
  isInTransaction: boolean,
): (...args: never[]) => T | PromiseLike<T> {
  const call = work as (...args: unknown[]) => T | PromiseLike<T>;
  return isInTransaction
    ? (tx: unknown, read: ReadEvent, ...rest: unknown[]) => call(tx, read(), ...rest)
    : (read: ReadEvent, ...rest: unknown[]) => call(read(), ...rest);
}

/** One response for the whole batch. It is sent again while one event must come again; events that are done are skipped then. */
function worstDelivery(deliveries: readonly Delivery[]): Delivery {
  const [worst = { status: "done-before", verdict: "acknowledge" }] = [...deliveries].sort(
    (a, b) => weight(b) - weight(a),
  );
  return worst;
}

function weight(delivery: Delivery): number {
  switch (delivery.verdict) {
    case "acknowledge":
      return -2;
    case "reject":
      return -1;
    case "later":
      return delivery.afterMs;
  }
}

/** Reads the event once, however often it is called. */
function once(read: ReadEvent): ReadEvent {
  let event: CloudEvent | undefined;
  return () => {
    event ??= read();
    return event;
  };
}
