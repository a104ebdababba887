/** The options of one exchange with every silence filled: by its profile, then by the defaults. */
import { type Clock, systemClock } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import { POLICY_CHECKS, type PolicyOptions } from "../core/policy.ts";
import { checkHttpOptions, HTTP_DEFAULTS, type HttpOptions, type QuotaLimits } from "./options.ts";
import { checkRetention, type Profile } from "./profile.ts";
import { PROFILES } from "./profiles.ts";

/** What is optional no more. */
type Filled = "required" | "methods" | "header" | "strict" | "maxKeyLength" | "maxBodyBytes" | "fingerprint";
type FilledToo =
  | "replay"
  | "replayHeaders"
  | "replayedHeader"
  | "expired"
  | "refuseMs"
  | "cors"
  | "problemBase";

export type Settings<Native> = Omit<
  HttpOptions<Native>,
  Filled | FilledToo | "documentation" | "clock" | "profile" | "quota"
> & {
  readonly [Name in Filled | FilledToo]: NonNullable<HttpOptions<Native>[Name]>;
} & {
  readonly documentation: string | undefined;
  readonly clock: Clock;
  /** Undefined if nothing is limited. */
  readonly quota: QuotaLimits | undefined;
  readonly profile: Profile;
  /** The guard with the policies of this exchange. */
  readonly guard: Engine;
  /** How long an answer is replayed. */
  readonly retentionMs: number;
};

export function settingsOf<Native>(guard: Engine, options: HttpOptions<Native>): Settings<Native> {
  checkHttpOptions(options);
  const profile = PROFILES[options.profile ?? HTTP_DEFAULTS.profile];
  const given = { ...HTTP_DEFAULTS, ...defined(profile.options), ...defined(options) };
  const documentation = given.documentation === false ? undefined : given.documentation;
  const filled = { clock: systemClock, ...given, documentation } as unknown as Settings<Native>;
  const base = guard.with({ onPending: "reject", ...policiesOf(given) });
  const { retentionMs } = base.policy;
  checkRetention(profile, retentionMs);
  // A refused key is remembered by its record, which must outlive what it answers.
  const keptMs = retentionMs + (filled.expired === "refuse" ? filled.refuseMs : 0) + (profile.graceMs ?? 0);
  return {
    ...filled,
    // A profile's own are part of its answers, whatever else is replayed.
    replayHeaders: [...(profile.options.replayHeaders ?? []), ...(options.replayHeaders ?? [])],
    quota: limitsIn(given.quota),
    profile,
    retentionMs,
    guard: keptMs === retentionMs ? base : base.with({ retentionMs: keptMs }),
  };
}

function limitsIn(quota: number | QuotaLimits | undefined): QuotaLimits | undefined {
  if (quota === undefined) return undefined;
  const limits = typeof quota === "number" ? { keys: quota } : defined(quota);
  return Object.keys(limits).length === 0 ? undefined : limits;
}

function policiesOf(options: object): PolicyOptions {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(POLICY_CHECKS, name)));
}

function defined<Options extends object>(options: Options): Options {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Options;
}
