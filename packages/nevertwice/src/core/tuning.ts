/** A policy that is in use, those that are made of it, and how its windows are changed meanwhile. */
import {
  type Check,
  checkOptions,
  mergePolicy,
  POLICY_CHECKS,
  type Policy,
  type PolicyOptions,
} from "./policy.ts";

const WINDOWS = [
  "waitMs",
  "retentionMs",
  "markRetentionMs",
  "leaseMs",
  "maxRunMs",
  "storeTimeoutMs",
  "completeWaitMs",
] as const satisfies readonly (keyof Policy)[];

/** What can be retuned: how long things take. No two of these contradict each other, whatever was made of the policy. */
export type Windows = Pick<PolicyOptions, (typeof WINDOWS)[number]>;

const WINDOW_CHECKS: Readonly<Record<string, Check>> = Object.fromEntries(
  WINDOWS.map((name) => [name, POLICY_CHECKS[name]]),
);

export interface Tuning {
  policy(): Policy;
  /** Says some policies otherwise, and follows this one in all the others. */
  with(options: PolicyOptions): Tuning;
  /** Calls from now on go by these. */
  retune(windows: Windows): void;
}

/** `options` are checked by whoever has them. `fit` makes a policy one that can be kept. */
export function tuningOf(
  base: () => Policy,
  options: PolicyOptions,
  fit: (policy: Policy) => Policy,
): Tuning {
  let own = options;
  let madeOf = base();
  let made = fit(mergePolicy(madeOf, own));

  function policy(): Policy {
    const now = base();
    if (now !== madeOf) {
      made = fit(mergePolicy(now, own));
      madeOf = now;
    }
    return made;
  }

  return {
    policy,
    with(more) {
      checkOptions(more, POLICY_CHECKS);
      return tuningOf(policy, more, fit);
    },
    retune(windows) {
      checkOptions(windows, WINDOW_CHECKS);
      const given = Object.entries(windows).filter(([, value]) => value !== undefined);
      own = { ...own, ...Object.fromEntries(given) };
      made = fit(mergePolicy(base(), own));
      madeOf = base();
    },
  };
}
