/** CloudEvents, each processed once: `source` and `id` together are its name, whatever form it comes in. */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { eventKey } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { type Check, isFunction, wholeFrom } from "../core/policy.ts";
import { type CloudEvent, eventOf } from "./cloudevents/event.ts";
import { eventsIn, type ReadEvent } from "./cloudevents/http.ts";
import { consumer } from "./consumer.ts";
import type { ConsumerGuard, ConsumerOptions } from "./consumer-settings.ts";
import type { Delivery } from "./delivery.ts";
import { ANSWER_CHECKS, type AnswerOptions, answerOf, type HttpAnswer, refusal } from "./http-answer.ts";
import { createReceiver, type Received, type Receiver } from "./incoming.ts";

export type { CloudEvent } from "./cloudevents/event.ts";
export type { HttpAnswer } from "./http-answer.ts";
export type { Incoming, IncomingHeaders, Received, Receiver } from "./incoming.ts";

export interface CloudEventsOptions<T> extends Omit<ConsumerOptions<CloudEvent, T>, "key">, AnswerOptions {
  /** Whether the request comes from whom it says. Default: not asked here, so ask before. */
  readonly verify?: ((received: Received) => boolean | PromiseLike<boolean>) | undefined;
  readonly maxBodyBytes?: number | undefined;
}

export interface CloudEventsReceiver<T> extends Receiver {
  /** An event that came some other way, from a queue or a function's arguments. Never rejects. */
  handleEvent(event: unknown): Promise<Delivery<T>>;
}

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
      "key is no option here: an event's source and id are its key.",
    );
  },
};

/** Fails with `options-invalid` at once on bad options. */
export function cloudEvents<T = unknown>(
  guard: ConsumerGuard,
  options: CloudEventsOptions<T>,
): CloudEventsReceiver<T> {
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
  // What is wrong with an event is said where its key is asked for: the consumer refuses it.
  const inner = consumer<ReadEvent, T>(guard, {
    ...rest,
    key: (read) => eventKey(read()),
    scope: scope && ((read) => scope(read())),
    fingerprint: fingerprint && ((read) => fingerprint(read())),
    work: work && ((read, attempt, tried) => work(read(), attempt, tried)),
  });

  const refuse = (error: NevertwiceError): HttpAnswer => {
    harmless(() => options.onEvent?.({ kind: "refused", consumer: inner.name, verdict: "reject", error }));
    return refusal(error);
  };

  const receiver = createReceiver(maxBodyBytes, async (received) => {
    if (verify !== undefined && (await verify(received)) !== true)
      return refuse(new NevertwiceError("signature-invalid", "it is not the sender's own."));
    let events: readonly ReadEvent[];
    try {
      events = eventsIn(received);
    } catch (error) {
      if (!isNevertwiceError(error)) throw error;
      return refuse(error);
    }
    const deliveries = await inner.handleBatch(events.map(once));
    return answerOf(gravest(deliveries), { onRejected });
  });

  return Object.assign(receiver, {
    handleEvent: (event: unknown) => inner.handle(once(() => eventOf(event))),
  });
}

/** Of a batch there is one answer for all: it is sent again as long as one is to be, and those that are done are skipped. */
function gravest(deliveries: readonly Delivery[]): Delivery {
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

/** Looked into once, however often it is asked for. */
function once(read: ReadEvent): ReadEvent {
  let event: CloudEvent | undefined;
  return () => {
    event ??= read();
    return event;
  };
}
