/** Every policy option with its default and its check. Options are checked once: at construction, or in the call that has them. */
import { NevertwiceError } from "./errors.ts";
import { type Check, isFunction, oneOf, wholeFrom } from "./option-checks.ts";
import type { Parts } from "./store.ts";

export type FailureDisposition = "release" | "remember" | "unknown";

/** The decision of an operator or of `reconcile` about work whose outcome was unknown. */
export type Decision =
  | { readonly status: "done"; readonly value: unknown }
  | { readonly status: "failed"; readonly error: unknown }
  | { readonly status: "not-done" };

/** A held, lapsed claim, as `reconcile` gets it. */
export interface LapsedClaim {
  readonly parts: Parts;
  /** The fence and number of the claim under which `reconcile` runs, not of the one that lapsed. */
  readonly fence: number;
  readonly number: number;
  readonly signal: AbortSignal;
  deriveKey(name: string): string;
}

/** docs/options.md explains each. Durations are milliseconds. */
export interface Policy {
  readonly onCompleted: "replay" | "reject";
  readonly onPending: "wait" | "reject";
  readonly waitMs: number;
  readonly onFailure: FailureDisposition | ((error: unknown) => FailureDisposition);
  readonly onUnavailable: "refuse" | "proceed";
  readonly onLapsed: "takeover" | "hold";
  readonly reconcile:
    | ((lapsed: LapsedClaim) => Promise<Decision | { readonly status: "unknown" }>)
    | undefined;
  readonly retentionFrom: "completion" | "claim";
  readonly retentionMs: number;
  readonly markRetentionMs: number;
  readonly leaseMs: number;
  readonly maxRunMs: number;
  readonly transactionMs: number;
  readonly storeTimeoutMs: number;
  readonly completeWaitMs: number;
  readonly maxOutcomeBytes: number;
  readonly maxSteps: number;
}

export type PolicyOptions = { readonly [Name in keyof Policy]?: Policy[Name] | undefined };

export const POLICY_DEFAULTS: Policy = {
  onCompleted: "replay",
  onPending: "wait",
  waitMs: 10_000,
  onFailure: "release",
  onUnavailable: "refuse",
  onLapsed: "takeover",
  reconcile: undefined,
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
