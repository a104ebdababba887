/** How long a handler may have its response kept, by `attempt.keepFor`. */
import { NevertwiceError } from "../core/errors.ts";
import { wholeFrom } from "../core/option-checks.ts";
import type { KeepFor } from "./http-attempt.ts";
import { checkRetention } from "./profile.ts";
import type { ResolvedHttpOptions } from "./resolved-options.ts";

export function createKeepFor<Native>(options: ResolvedHttpOptions<Native>): KeepFor {
  const { profile, quota, retentionMs, guard } = options;
  // Clocks differ, and expired: "refuse" keeps a record longer than its response answers.
  const extraMs = guard.policy.retentionMs - retentionMs;
  return (ms) => {
    wholeFrom(1)("keepFor(ms)", ms);
    checkRetention(profile, ms);
    if (quota !== undefined && ms > retentionMs)
      throw new NevertwiceError(
        "options-invalid",
        `keepFor(${ms}) is longer than retentionMs (${retentionMs}), after which the quota no longer counts a key; raise retentionMs.`,
      );
    return ms + extraMs;
  };
}
