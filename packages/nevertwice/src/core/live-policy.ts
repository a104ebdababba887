/** The policy in force, which can change while the guard runs, and the policies derived from it. */
import { type Check, checkOptions, givenOptions } from "./option-checks.ts";
import { mergePolicy, POLICY_CHECKS, type Policy, type PolicyOptions } from "./policy.ts";

const WINDOWS = [
  "waitMs",
  "retentionMs",
  "markRetentionMs",
  "leaseMs",
  "maxRunMs",
  "transactionMs",
  "storeTimeoutMs",
  "completeWaitMs",
] as const satisfies readonly (keyof Policy)[];

/** The durations that `retune` can change. No two of them contradict each other, in derived policies either. */
export type Windows = Pick<PolicyOptions, (typeof WINDOWS)[number]>;

const WINDOW_CHECKS: Readonly<Record<string, Check>> = Object.fromEntries(
  WINDOWS.map((name) => [name, POLICY_CHECKS[name]]),
);

export interface LivePolicy {
  policy(): Policy;
  /** A policy that sets some policies itself, and follows this one in all others. */
  with(options: PolicyOptions): LivePolicy;
  /** Changes the durations for calls from now on. */
  retune(windows: Windows): void;
}

/** `options` must be checked already. `fit` adapts a policy to the store's limits. */
export function createLivePolicy(
  base: () => Policy,
  options: PolicyOptions,
  fit: (policy: Policy) => Policy,
): LivePolicy {
  let own = options;
  let usedBase = base();
  let made = fit(mergePolicy(usedBase, own));

  function policy(): Policy {
    const now = base();
    if (now !== usedBase) {
      made = fit(mergePolicy(now, own));
      usedBase = now;
    }
    return made;
  }

  return {
    policy,
    with(more) {
      checkOptions(more, POLICY_CHECKS);
      return createLivePolicy(policy, more, fit);
    },
    retune(windows) {
      checkOptions(windows, WINDOW_CHECKS);
      own = { ...own, ...givenOptions(windows) };
      made = fit(mergePolicy(base(), own));
      usedBase = base();
    },
  };
}
