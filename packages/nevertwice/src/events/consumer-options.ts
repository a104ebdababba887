/** The options of a consumer: their checks and their defaults. */

import { requireGuard } from "../core/argument-checks.ts";
import type { Attempt } from "../core/attempt.ts";
import { type Backoff, type BackoffOptions, toBackoff } from "../core/backoff.ts";
import type { DatabaseHandle, TransactionOf } from "../core/database-handle.ts";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey, type Key } from "../core/key.ts";
import { type Check, checkOptions, isFunction, oneOf, wholeFrom } from "../core/option-checks.ts";
import { POLICY_CHECKS, type PolicyOptions, pickPolicies } from "../core/policy.ts";
import { isOperation } from "../core/reserved.ts";
import { type TransactionDoor, transactionDoor } from "../core/transaction-door.ts";
import type { ConsumerEvent } from "./consumer-event.ts";
import { checkHorizon, RETRY_HORIZONS_MS, retentionPast, type Sender } from "./senders.ts";

/** Options of `consumer`: what a message's key is, what is done with it, and how often it is tried. */
export interface ConsumerOptions<Message, T> extends PolicyOptions {
  /** The consumer's name. Two consumers with different names each process a message once. All processes of one consumer share the name. */
  readonly name: string;
  /** The id that the sender gave the message, the same on every delivery. */
  readonly key: (message: Message) => string | Key | undefined;
  /** Processes one message. It should stop when `attempt.signal` fires. */
  readonly work: (message: Message, attempt: Attempt, tried: Tried) => T | PromiseLike<T>;
  /** The database in whose transactions the work runs: see `TransactionConsumerOptions`. Default: none. */
  readonly transaction?: undefined;
  /** What the key is for. Default: the consumer's name. */
  readonly operation?: string | undefined;
  /** The tenant of the message, if one consumer serves several tenants whose keys may be equal. */
  readonly scope?: ((message: Message) => string) | undefined;
  /** The content that must not change: the same key with other content raises an alarm, and is never run. Default: not compared. */
  readonly fingerprint?: ((message: Message) => unknown) | undefined;
  /** Retries within one delivery, under the same claim. Default: none, the broker sends the message again. */
  readonly retry?: BackoffOptions | undefined;
  /** Whether an error is permanent: then the work is not tried again, and the message is rejected. */
  readonly isPermanent?: ((error: unknown) => boolean) | undefined;
  /** The number of failed attempts, over all deliveries, after which the message is rejected. Default: no limit. */
  readonly maxAttempts?: number | undefined;
  /**
   * After how long the broker should send a message again. Doubled with each failed attempt, up to `maxLaterMs`.
   * @default 1_000 (1 s)
   */
  readonly laterMs?: number | undefined;
  /**
   * The longest pause that the broker is asked for, in milliseconds.
   * @default 60_000 (60 s)
   */
  readonly maxLaterMs?: number | undefined;
  /** The sender. A retention that is shorter than the time in which it may send again is refused. */
  readonly sender?: Sender | undefined;
  /** The same for another sender: how long after the first delivery the last one may arrive. */
  readonly retryHorizonMs?: number | undefined;
  /** Called with each event. What it throws is ignored. */
  readonly onEvent?: ((event: ConsumerEvent) => unknown) | undefined;
}

/** The options of a consumer whose work commits in one transaction with the record of its message. */
export interface TransactionConsumerOptions<Message, T, Handle extends DatabaseHandle>
  extends Omit<ConsumerOptions<Message, T>, "work" | "transaction"> {
  /** The database that has the store's tables, as for `guard.transaction`. Each try of the work is one transaction. */
  readonly transaction: Handle;
  /** Processes one message in a transaction: what it writes with `tx` commits together with the record. */
  readonly work: (
    tx: TransactionOf<Handle>,
    message: Message,
    attempt: Attempt,
    tried: Tried,
  ) => T | PromiseLike<T>;
}

/** The options of either kind. */
export interface AnyConsumerOptions<Message, T>
  extends Omit<ConsumerOptions<Message, T>, "work" | "transaction"> {
  /** The database, if the work runs in transactions. */
  readonly transaction?: unknown;
  /** The work, with or without a transaction as its first argument. */
  readonly work: (...args: never[]) => T | PromiseLike<T>;
}

/** Which try of a delivery the work is in. */
export interface Tried {
  /** The number of the try in this delivery: 1, 2, … */
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
  // The name is also the operation, unless another one is given.
  name: isOperation,
  key: isFunction,
  work: isFunction,
  // The guard checks it, since it must fit the guard's store.
  transaction: () => {},
  operation: isOperation,
  scope: isFunction,
  fingerprint: isFunction,
  retry: (_, value) => void toBackoff(value as BackoffOptions),
  isPermanent: isFunction,
  maxAttempts: wholeFrom(1),
  laterMs: wholeFrom(0),
  maxLaterMs: wholeFrom(0),
  sender: oneOf(...Object.keys(RETRY_HORIZONS_MS)),
  retryHorizonMs: wholeFrom(0),
  onEvent: isFunction,
};

/** The part of a guard that a consumer uses. */
export type ConsumerGuard = Pick<Engine, "tryRun" | "policy" | "about" | "with">;

/** The database of a consumer, and the work as it is called there. */
export interface ConsumerTransaction<Message, T> {
  readonly door: TransactionDoor;
  readonly database: unknown;
  readonly work: (tx: unknown, message: Message, attempt: Attempt, tried: Tried) => T | PromiseLike<T>;
}

export interface ConsumerSettings<Message, T> extends Omit<ConsumerOptions<Message, T>, "transaction"> {
  /** With the policies of the consumer. */
  readonly guard: ConsumerGuard;
  /** The scope of messages without a tenant. */
  readonly ownScope: string;
  readonly inTransaction: ConsumerTransaction<Message, T> | undefined;
  readonly backoff: Backoff;
  readonly later: Backoff;
}

export function consumerSettings<Message, T>(
  guard: ConsumerGuard,
  options: AnyConsumerOptions<Message, T>,
): ConsumerSettings<Message, T> {
  requireGuard(guard, "consumer(guard, { name, key, work })");
  checkOptions(options, CONSUMER_CHECKS);
  for (const name of ["name", "key", "work"] as const) {
    if (options[name] !== undefined) continue;
    throw new NevertwiceError("options-invalid", `${name} is missing: consumer(guard, { name, key, work }).`);
  }
  const {
    onPending = CONSUMER_DEFAULTS.onPending,
    retentionMs = retentionPast(CONSUMER_DEFAULTS.retentionMs, options),
    laterMs = CONSUMER_DEFAULTS.laterMs,
    maxLaterMs = CONSUMER_DEFAULTS.maxLaterMs,
  } = options;
  const policies: PolicyOptions = { ...pickPolicies(options), onPending, retentionMs };
  const own = guard.with(policies);
  checkHorizon(retentionMs, options);
  return {
    ...options,
    work: options.work as ConsumerOptions<Message, T>["work"],
    guard: own,
    ownScope: checkedPart(compositeKey(options.name).text, "name", "options-invalid"),
    inTransaction: consumerTransaction(own, options),
    backoff: toBackoff(options.retry ?? {}),
    later: toBackoff({ baseMs: laterMs, capMs: Math.max(laterMs, maxLaterMs), jitter: 0 }),
  };
}

/** Throws `options-invalid` if the database does not fit the guard's store. */
function consumerTransaction<Message, T>(
  guard: ConsumerGuard,
  { transaction: database, work }: AnyConsumerOptions<Message, T>,
): ConsumerTransaction<Message, T> | undefined {
  if (database === undefined) return undefined;
  const door = transactionDoor(guard, "consumer(guard, { name, key, transaction, work })");
  door.runnerFor(database, () => undefined);
  return { door, database, work: work as ConsumerTransaction<Message, T>["work"] };
}
