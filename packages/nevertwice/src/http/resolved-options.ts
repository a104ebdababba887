/** The options of one exchange, completed: the given ones, then those of the profile, then the defaults. */

import { requireGuard } from "../core/argument-checks.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import { givenOptions } from "../core/option-checks.ts";
import { pickPolicies } from "../core/policy.ts";
import { checkHttpOptions } from "./http-option-checks.ts";
import { HTTP_DEFAULTS, type HttpOptions, type QuotaLimits, type WaitingLimits } from "./options.ts";
import { checkRetention, type Profile } from "./profile.ts";
import { PROFILES } from "./profiles.ts";

/** Options that always have a value after they were resolved. */
type FilledOption =
  | "required"
  | "methods"
  | "header"
  | "strict"
  | "maxKeyLength"
  | "maxBodyBytes"
  | "fingerprint"
  | "replay"
  | "replayHeaders"
  | "replayedHeader"
  | "onNotKept"
  | "expired"
  | "refuseMs"
  | "cors"
  | "problemBase";

export type ResolvedHttpOptions<Native> = Omit<
  HttpOptions<Native>,
  FilledOption | "documentation" | "clock" | "profile" | "quota" | "maxWaiting"
> & {
  readonly [Name in FilledOption]: NonNullable<HttpOptions<Native>[Name]>;
} & {
  readonly documentation: string | undefined;
  readonly clock: Clock;
  /** Undefined without limits. */
  readonly quota: QuotaLimits | undefined;
  readonly maxWaiting: WaitingLimits;
  readonly profile: Profile;
  /** The guard, with the policies of this exchange. */
  readonly guard: Engine;
  /** How long a response is replayed. The guard keeps its record at least as long. */
  readonly retentionMs: number;
};

export function resolveHttpOptions<Native>(
  guard: Engine,
  options: HttpOptions<Native>,
): ResolvedHttpOptions<Native> {
  requireGuard(guard, "it comes before the options, idempotency(guard, { scope })");
  checkHttpOptions(options);
  const profile = PROFILES[options.profile ?? HTTP_DEFAULTS.profile];
  const given = { ...HTTP_DEFAULTS, ...givenOptions(profile.options), ...givenOptions(options) };
  const documentation = given.documentation === false ? undefined : given.documentation;
  const filled = { clock: systemClock, ...given, documentation } as unknown as ResolvedHttpOptions<Native>;
  const base = guard.with({ onPending: "reject", ...pickPolicies(given) });
  const { retentionMs } = base.policy;
  checkRetention(profile, retentionMs);
  // With `expired: "refuse"`, the record must be kept longer than its response is replayed.
  const keptMs = retentionMs + (filled.expired === "refuse" ? filled.refuseMs : 0) + (profile.graceMs ?? 0);
  return {
    ...filled,
    // The headers of the profile are replayed in addition to the given ones.
    replayHeaders: [...(profile.options.replayHeaders ?? []), ...(options.replayHeaders ?? [])],
    methods: given.methods.map((method) => method.toUpperCase()),
    quota: toLimits(given.quota),
    maxWaiting: { ...HTTP_DEFAULTS.maxWaiting, ...givenOptions(given.maxWaiting) },
    profile,
    retentionMs,
    guard: keptMs === retentionMs ? base : base.with({ retentionMs: keptMs }),
  };
}

function toLimits(quota: number | QuotaLimits | undefined): QuotaLimits | undefined {
  if (quota === undefined) return undefined;
  const limits = typeof quota === "number" ? { keys: quota } : givenOptions(quota);
  return Object.keys(limits).length === 0 ? undefined : limits;
}
