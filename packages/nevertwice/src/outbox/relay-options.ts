/** The options of a relay, its events, and what a deliverer is called with. */
import { type Backoff, type BackoffOptions, toBackoff } from "../core/backoff.ts";
import { NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions, givenOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import type { OutboxMessage } from "./message.ts";
import { MAX_DELAY_MS } from "./store.ts";

/** The second argument of a deliverer. */
export interface DeliveryContext {
  /** Fires when the delivery takes longer than `deliverMs`, when another relay took the message over, and when `stop` gave up waiting. */
  readonly signal: AbortSignal;
  /** 1 for the first attempt. It also counts attempts that ended in a crash. */
  readonly attempt: number;
}

/**
 * Delivers one message. Resolving means that the receiver has it. Throwing means "try again later", `throw permanent(cause)`
 * means "never", and `throw retryAfter(ms, cause)` says when. A message may be delivered more than once, with the same id.
 */
export type Deliver = (message: OutboxMessage, context: DeliveryContext) => unknown;

/** Options of a relay. */
export interface RelayOptions {
  /**
   * Hands one message to its receiver. A message is delivered again if it throws, so the receiver must
   * recognise it by its id.
   */
  readonly deliver: Deliver;
  /**
   * How many deliveries run at once. Two messages of one key never run at once.
   * @default 16
   */
  readonly concurrency?: number | undefined;
  /**
   * How many messages one claim takes at most.
   * @default 200
   */
  readonly batch?: number | undefined;
  /**
   * How long a claimed message belongs to this relay unless it renews, at most an hour.
   * @default 30_000 (30 s)
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long one delivery may take before its signal fires and it counts as failed.
   * @default 30_000 (30 s)
   */
  readonly deliverMs?: number | undefined;
  /**
   * How often an idle relay looks for messages, with jitter.
   * @default 200
   */
  readonly pollMs?: number | undefined;
  /**
   * After this many attempts a message is parked.
   * @default 20
   */
  readonly maxAttempts?: number | undefined;
  /** The wait before the next attempt; default: from 1 second, doubling, to 5 minutes, with half of it random. */
  readonly retry?: Omit<BackoffOptions, "max"> | undefined;
  /**
   * How long `stop` waits for deliveries in flight.
   * @default 30_000 (30 s)
   */
  readonly drainMs?: number | undefined;
  /** Receives every event. What it throws is ignored. */
  readonly onEvent?: ((event: RelayEvent) => void) | undefined;
}

/** Which message an event is about. No event contains a body. */
export interface AboutMessage {
  /** The id of the message. */
  readonly id: string;
  /** The topic of the message. */
  readonly topic: string;
  /** Which delivery of the message it is, from 1. */
  readonly attempt: number;
}

/** What a relay reports to `onEvent`. */
export type RelayEvent =
  | (AboutMessage & {
      readonly kind: "delivered";
      /** How long the delivery took, in milliseconds. */
      readonly tookMs: number;
    })
  | (AboutMessage & {
      readonly kind: "failed";
      /** What the deliverer threw, as text. */
      readonly error: string;
      /** How long until the next delivery, in milliseconds. */
      readonly retryInMs: number;
    })
  | (AboutMessage & { readonly kind: "parked"; readonly error: string })
  /** Another relay has the message: this one's lease ended. */
  | (AboutMessage & { readonly kind: "lost" })
  /** The database did not answer. The relay tries again. */
  | {
      readonly kind: "unavailable";
      /** Which call of the database failed. */
      readonly during: "claim" | "settle" | "renew";
      /** The error of the database. */
      readonly cause: unknown;
    };

export interface RelaySettings {
  readonly deliver: Deliver;
  readonly concurrency: number;
  readonly batch: number;
  readonly leaseMs: number;
  readonly deliverMs: number;
  readonly pollMs: number;
  readonly maxAttempts: number;
  readonly drainMs: number;
  readonly retry: Backoff;
  readonly onEvent: ((event: RelayEvent) => void) | undefined;
}

/** The defaults of `RelayOptions`. */
export const RELAY_DEFAULTS = {
  concurrency: 16,
  batch: 200,
  leaseMs: 30_000,
  deliverMs: 30_000,
  pollMs: 200,
  maxAttempts: 20,
  drainMs: 30_000,
} as const;

const RETRY_DEFAULTS = { strategy: "exponential", baseMs: 1_000, capMs: 300_000, jitter: 0.5 } as const;

export const MAX_BATCH = 1_000;

/** A whole number from `least` to `most`. */
function between(least: number, most: number): Check {
  const isWhole = wholeFrom(least);
  return (name, value) => {
    isWhole(name, value);
    if ((value as number) <= most) return;
    throw new NevertwiceError("options-invalid", `${name} is ${value}; the most is ${most}.`);
  };
}

const CHECKS: Readonly<Record<string, Check>> = {
  deliver: isFunction,
  concurrency: between(1, 10_000),
  batch: between(1, MAX_BATCH),
  leaseMs: between(1_000, MAX_DELAY_MS),
  deliverMs: between(1, MAX_DELAY_MS),
  pollMs: wholeFrom(1),
  maxAttempts: wholeFrom(1),
  drainMs: wholeFrom(0),
  retry: (name, value) => void checkedRetry(name, value as BackoffOptions),
  onEvent: isFunction,
};

/** Throws `options-invalid`, with the name of the option. */
export function toRelaySettings(options: RelayOptions): RelaySettings {
  checkOptions(options, CHECKS);
  isFunction("deliver", options.deliver);
  const { retry = {}, onEvent, ...given } = givenOptions(options);
  return { ...RELAY_DEFAULTS, ...given, retry: checkedRetry("retry", retry), onEvent };
}

function checkedRetry(name: string, options: BackoffOptions): Backoff {
  const retry = toBackoff({ ...RETRY_DEFAULTS, ...givenOptions(options) });
  between(0, MAX_DELAY_MS)(`${name}.capMs`, retry.capMs);
  return retry;
}
