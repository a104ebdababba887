/** Every policy option with its default and its check. Options are checked once: at construction, or in the call that has them. */
import { NevertwiceError } from "./errors.ts";
import { type Check, isFunction, oneOf, wholeFrom } from "./option-checks.ts";
import type { Parts } from "./store.ts";

export type FailureDisposition = "release" | "remember" | "unknown";

/** The decision of an operator or of `reconcile` about work whose outcome was unknown. */
export type Decision =
  | {
      /**
       * `done`: the effect happened, and duplicates get `value`. `failed`: duplicates get `error`. `not-done`:
       * the work may run again.
       */
      readonly status: "done";
      /** What duplicates get from now on. */
      readonly value: unknown;
    }
  | {
      readonly status: "failed";
      /** The error that duplicates get from now on. */
      readonly error: unknown;
    }
  | { readonly status: "not-done" };

/** A held, lapsed claim, as `reconcile` gets it. */
export interface LapsedClaim {
  /** The namespace, scope, operation and key of the record. */
  readonly parts: Parts;
  /** The fence and number of the claim under which `reconcile` runs, not of the one that lapsed. */
  readonly fence: number;
  /** How many attempts there were, with this one. */
  readonly number: number;
  /** Fires when `reconcile` no longer has the claim, or has run for `maxRunMs`. */
  readonly signal: AbortSignal;
  /** As `attempt.deriveKey`: the key that every attempt derived for the effect of this name. */
  deriveKey(name: string): string;
}

/** What happens to duplicates, failures and lapsed keys, and every limit. Durations are milliseconds. */
export interface Policy {
  /**
   * What a duplicate gets once the work is done: the stored outcome, or the error `already-done`.
   * @default "replay"
   */
  readonly onCompleted: "replay" | "reject";
  /**
   * What a duplicate does while another attempt runs: it waits up to `waitMs`, or fails with `pending`
   * immediately.
   * @default "wait"
   */
  readonly onPending: "wait" | "reject";
  /**
   * How long a duplicate waits for the attempt that runs, before it fails with `pending`.
   * @default 10_000
   */
  readonly waitMs: number;
  /**
   * What happens to the key if the work throws: `release` lets the next call run it again, `remember`
   * throws the stored error to every duplicate, and `unknown` says that the effect may have happened. A
   * function gets the error and returns one of them.
   * @default "release"
   */
  readonly onFailure: FailureDisposition | ((error: unknown) => FailureDisposition);
  /**
   * What a call does if the store cannot be reached before the work: it fails with `unavailable`, or
   * runs the work without a claim. `proceed` cannot be combined with `onLapsed: "hold"`.
   * @default "refuse"
   */
  readonly onUnavailable: "refuse" | "proceed";
  /**
   * What happens to a key whose owner stopped renewing its lease: the next caller runs the work with a
   * higher fence, or every call fails with `unknown` until an operator or `reconcile` decides.
   * @default "takeover"
   */
  readonly onLapsed: "takeover" | "hold";
  /**
   * Decides about a held key, for example by asking the payment provider. Needs `onLapsed: "hold"`.
   * @default undefined
   */
  readonly reconcile:
    | ((lapsed: LapsedClaim) => Promise<
        | Decision
        | {
            /** Still undecided: the key stays held, and the next call asks again. */
            readonly status: "unknown";
          }
      >)
    | undefined;
  /**
   * How long a held key waits for a decision, from its last claim. Then every call fails with `expired`,
   * and the work never runs.
   * @default undefined
   */
  readonly holdForMs: number | undefined;
  /**
   * When `retentionMs` begins: with the completion, or with the claim of the first request.
   * @default "completion"
   */
  readonly retentionFrom: "completion" | "claim";
  /**
   * How long a stored outcome is replayed. Choose it longer than the time in which a retry may come.
   * @default 86_400_000 (24 h)
   */
  readonly retentionMs: number;
  /**
   * How long a mark counts as done, if its call does not say.
   * @default 60_000
   */
  readonly markRetentionMs: number;
  /**
   * How long a claim holds unless its owner renews it, which the guard does while the work runs. After a
   * crash, other processes wait this long before they run the work.
   * @default 30_000
   */
  readonly leaseMs: number;
  /**
   * How long one attempt may run. Then `attempt.signal` fires, and the claim is no longer renewed.
   * @default 900_000 (15 min)
   */
  readonly maxRunMs: number;
  /**
   * How long a transaction may take, with its repeats. Then it is rolled back.
   * @default 30_000
   */
  readonly transactionMs: number;
  /**
   * How long a call waits for the store, with all its tries. Then it fails with `unavailable`.
   * @default 5_000
   */
  readonly storeTimeoutMs: number;
  /**
   * How long the first caller waits until the store confirms the outcome. Then it gets its value, with
   * `recorded: false`, and the guard goes on trying.
   * @default 1_000
   */
  readonly completeWaitMs: number;
  /**
   * The largest outcome that is stored. A larger one is recorded as done, and duplicates get `not-kept`.
   * @default 1_048_576 (1 MiB)
   */
  readonly maxOutcomeBytes: number;
  /**
   * How many steps the work of one key may have. A further one fails with `options-invalid` before it
   * runs.
   * @default 100
   */
  readonly maxSteps: number;
}

/**
 * The policies that a guard, a call or a wrapped function sets. What is left out comes from the guard, and
 * there from the defaults.
 */
export type PolicyOptions = { readonly [Name in keyof Policy]?: Policy[Name] | undefined };

export const POLICY_DEFAULTS: Policy = {
  onCompleted: "replay",
  onPending: "wait",
  waitMs: 10_000,
  onFailure: "release",
  onUnavailable: "refuse",
  onLapsed: "takeover",
  reconcile: undefined,
  holdForMs: undefined,
  retentionFrom: "completion",
  retentionMs: 86_400_000,
  markRetentionMs: 60_000,
  leaseMs: 30_000,
  maxRunMs: 900_000,
  transactionMs: 30_000,
  storeTimeoutMs: 5_000,
  completeWaitMs: 1_000,
  maxOutcomeBytes: 1_048_576,
  maxSteps: 100,
};

export const POLICY_CHECKS: { readonly [Name in keyof Policy]: Check } = {
  onCompleted: oneOf("replay", "reject"),
  onPending: oneOf("wait", "reject"),
  waitMs: wholeFrom(0),
  onFailure: (name, value) =>
    typeof value === "function" || oneOf("release", "remember", "unknown")(name, value),
  onUnavailable: oneOf("refuse", "proceed"),
  onLapsed: oneOf("takeover", "hold"),
  reconcile: isFunction,
  holdForMs: wholeFrom(1),
  retentionFrom: oneOf("completion", "claim"),
  retentionMs: wholeFrom(1),
  markRetentionMs: wholeFrom(1),
  leaseMs: wholeFrom(10),
  maxRunMs: wholeFrom(1),
  transactionMs: wholeFrom(100),
  storeTimeoutMs: wholeFrom(1),
  completeWaitMs: wholeFrom(0),
  maxOutcomeBytes: wholeFrom(64),
  maxSteps: wholeFrom(1),
};

/** The base policy with the policies of `options` (already checked) in place of its own; the base itself if there are none. */
export function mergePolicy(base: Policy, options: object): Policy {
  let policy: Record<string, unknown> | undefined;
  for (const name in options) {
    const value = (options as Record<string, unknown>)[name];
    if (value === undefined || !Object.hasOwn(POLICY_CHECKS, name)) continue;
    policy ??= { ...base };
    policy[name] = value;
  }
  if (policy === undefined) return base;
  const { onLapsed, reconcile } = options as PolicyOptions;
  // A takeover never calls `reconcile`, so the base's `reconcile` goes away together with its `hold`.
  if (onLapsed === "takeover" && reconcile === undefined) policy.reconcile = undefined;
  checkTogether(policy as unknown as Policy);
  return policy as unknown as Policy;
}

/** The policies among `options`, without those that are undefined. */
export function pickPolicies(options: object): PolicyOptions {
  const isGivenPolicy = ([name, value]: [string, unknown]) =>
    value !== undefined && Object.hasOwn(POLICY_CHECKS, name);
  return Object.fromEntries(Object.entries(options).filter(isGivenPolicy));
}

/** Throws `options-invalid` if two of the given policies contradict each other. */
export function checkTogether({ reconcile, onLapsed, onUnavailable }: PolicyOptions): void {
  if (onLapsed === "hold" && onUnavailable === "proceed") {
    throw new NevertwiceError(
      "options-invalid",
      'onUnavailable: "proceed" and onLapsed: "hold" contradict each other. Work that must not run twice has to be refused while the store is unreachable.',
    );
  }
  if (reconcile !== undefined && onLapsed === "takeover") {
    throw new NevertwiceError(
      "options-invalid",
      'reconcile is only called for held claims: it needs onLapsed: "hold".',
    );
  }
}
