/** What a consumer is told when it is made: its options, their checks and their defaults. */
import type { Attempt } from "../core/attempt.ts";
import { type Backoff, type BackoffOptions, backoffOf } from "../core/backoff.ts";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import type { Key } from "../core/key.ts";
import {
  type Check,
  checkOptions,
  isFunction,
  isText,
  mergePolicy,
  oneOf,
  POLICY_CHECKS,
  type PolicyOptions,
  wholeFrom,
} from "../core/policy.ts";
import type { ConsumerEvent } from "./consumer-event.ts";
import { checkHorizon, outlasting, RETRY_HORIZONS_MS, type Sender } from "./senders.ts";

export interface ConsumerOptions<Message, T> extends PolicyOptions {
  /** Who consumes: two consumers of one message each process it once. Keep it the same for all copies of this one. */
  readonly name: string;
  /** The name that the sender gave the message, the same on every delivery. */
  readonly key: (message: Message) => string | Key | undefined;
  readonly work: (message: Message, attempt: Attempt, tried: Tried) => T | PromiseLike<T>;
  /** What the key is for; default: the consumer's name. */
  readonly operation?: string | undefined;
  /** Whose message it is, where one consumer serves several tenants whose keys may be equal. */
  readonly scope?: ((message: Message) => string) | undefined;
  /** What the message means: the same key with another meaning raises an alarm, and is never run. Default: not compared. */
  readonly fingerprint?: ((message: Message) => unknown) | undefined;
  /** Tries again within one delivery, under the same claim. Default: once, the broker sends it again. */
  readonly retry?: BackoffOptions | undefined;
  /** Whether trying again cannot help: then it is not tried again, and the message is rejected. */
  readonly isPermanent?: ((error: unknown) => boolean) | undefined;
  /** After so many failed attempts, over all deliveries, the message is rejected. Default: never. */
  readonly maxAttempts?: number | undefined;
  /** After how long a message is to be sent again; doubled with each failed attempt, up to `maxLaterMs`. */
  readonly laterMs?: number | undefined;
  readonly maxLaterMs?: number | undefined;
  /** Who sends: a retention that is shorter than it may send again is refused. */
  readonly sender?: Sender | undefined;
  /** The same for a sender of your own: how long after the first delivery the last one may come. */
  readonly retryHorizonMs?: number | undefined;
  /** Told what becomes of each message. What it throws is dropped. */
  readonly onEvent?: ((event: ConsumerEvent) => unknown) | undefined;
}

export interface Tried {
  /** Which try of this delivery it is: 1, 2, … */
  readonly number: number;
}

/** Thirty days: longer than any queue keeps a message by default. */
const RETENTION_MS = 2_592_000_000;

export const CONSUMER_DEFAULTS = {
  onPending: "reject",
  retentionMs: RETENTION_MS,
  laterMs: 1_000,
  maxLaterMs: 60_000,
} as const;

const CONSUMER_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  name: (name, value) => void checkedPart(value, name, "options-invalid"),
  key: isFunction,
  work: isFunction,
  operation: isText,
  scope: isFunction,
  fingerprint: isFunction,
  retry: (_, value) => void backoffOf(value as BackoffOptions),
  isPermanent: isFunction,
  maxAttempts: wholeFrom(1),
  laterMs: wholeFrom(0),
  maxLaterMs: wholeFrom(0),
  sender: oneOf(...Object.keys(RETRY_HORIZONS_MS)),
  retryHorizonMs: wholeFrom(0),
  onEvent: isFunction,
};

/** What a consumer needs of a guard. */
export type ConsumerGuard = Pick<Engine, "tryRun" | "policy" | "about">;

export interface ConsumerSettings<Message, T> extends ConsumerOptions<Message, T> {
  readonly guard: ConsumerGuard;
  readonly policies: PolicyOptions;
  readonly backoff: Backoff;
  readonly later: Backoff;
}

export function settingsOf<Message, T>(
  guard: ConsumerGuard,
  options: ConsumerOptions<Message, T>,
): ConsumerSettings<Message, T> {
  checkOptions(options, CONSUMER_CHECKS);
  for (const name of ["name", "key", "work"] as const) {
    if (options[name] !== undefined) continue;
    throw new NevertwiceError("options-invalid", `${name} is missing: consumer(guard, { name, key, work }).`);
  }
  const {
    onPending = CONSUMER_DEFAULTS.onPending,
    retentionMs = outlasting(CONSUMER_DEFAULTS.retentionMs, options),
    laterMs = CONSUMER_DEFAULTS.laterMs,
    maxLaterMs = CONSUMER_DEFAULTS.maxLaterMs,
  } = options;
  const given = Object.entries(options).filter(([name]) => Object.hasOwn(POLICY_CHECKS, name));
  const policies: PolicyOptions = { ...Object.fromEntries(given), onPending, retentionMs };
  mergePolicy(guard.policy, policies);
  checkHorizon(retentionMs, options);
  return {
    ...options,
    guard,
    policies,
    backoff: backoffOf(options.retry ?? {}),
    later: backoffOf({ baseMs: laterMs, capMs: Math.max(laterMs, maxLaterMs), jitter: 0 }),
  };
}
