/** Everything outside itself that the engine uses. A simulation passes in its own ports. */
import type { Background } from "./background.ts";
import type { Clock, Timer } from "./clock.ts";
import type { EnqueueDoor } from "./enqueue.ts";
import type { EmitEvent } from "./observer.ts";
import type { Policy } from "./policy.ts";
import type { Requirement } from "./requirement.ts";
import type { Store } from "./store.ts";
import type { CreateTransactionRunner } from "./transaction-port.ts";
import type { WaitUntil } from "./wait-until.ts";

export interface Ports {
  readonly store: Store;
  readonly timer: Timer;
  /** Tells how old a held record is. Default: the system's clock. */
  readonly clock?: Clock | undefined;
  /** A number from 0 to 1. It only spreads retries and polls in time. */
  readonly random: () => number;
  /** A token that cannot be guessed and never repeats: anyone who knows a claim's token owns the claim. */
  readonly newToken: () => string;
  readonly emit: EmitEvent | undefined;
  /** Where the work runs, as an observer says it. It is stored with the outcome. */
  readonly origin?: (() => string | undefined) | undefined;
  readonly background: Background;
  /** What the store must survive; checked before claims are sent. */
  readonly requirement: Requirement | undefined;
  /** Runs work in transactions of the application's database. Undefined for an engine without them. */
  readonly runnerFor?: CreateTransactionRunner | undefined;
  /** Writes the messages of `attempt.enqueue`. */
  readonly outbox?: EnqueueDoor | undefined;
  /** The platform's `waitUntil`, for calls that bring none. */
  readonly waitUntil?: WaitUntil | undefined;
}

/** The largest outcome that may be stored: the policy's limit or the store's, whichever is lower. */
export function outcomeLimit({ store }: Ports, { maxOutcomeBytes }: Pick<Policy, "maxOutcomeBytes">): number {
  return Math.min(maxOutcomeBytes, store.maxOutcomeBytes ?? Number.POSITIVE_INFINITY);
}

/** The same for the outcome of one call, whose door may have its own limit. */
export function callOutcomeLimit(
  ports: Ports,
  { policy, mostOutcomeBytes }: { readonly policy: Policy; readonly mostOutcomeBytes?: number | undefined },
): number {
  return outcomeLimit(ports, { maxOutcomeBytes: mostOutcomeBytes ?? policy.maxOutcomeBytes });
}
