/** Every policy option, its default and its check. Checked once: at construction, or on the call that carries it. */
import type { Clock } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";
import type { Parts } from "./store.ts";

export type FailureDisposition = "release" | "remember" | "unknown";

/** What somebody who looked found out about work whose outcome was unknown. */
export type Decision =
  | { readonly status: "done"; readonly value: unknown }
  | { readonly status: "failed"; readonly error: unknown }
  | { readonly status: "not-done" };

/** A held, lapsed claim, as `reconcile` is shown it. */
export interface LapsedClaim {
  readonly parts: Parts;
  /** The fence and number of the claim that looks, not of the one that lapsed. */
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
  readonly storeTimeoutMs: number;
  readonly completeWaitMs: number;
  readonly maxOutcomeBytes: number;
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
  storeTimeoutMs: 5_000,
  completeWaitMs: 1_000,
  maxOutcomeBytes: 1_048_576,
};

export type Check = (name: string, value: unknown) => void;

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
  storeTimeoutMs: wholeFrom(1),
  completeWaitMs: wholeFrom(0),
  maxOutcomeBytes: wholeFrom(64),
};

/** A hundred years: longer is a unit mistake. */
const MAX_WHOLE = 3_155_760_000_000;

export function wholeFrom(least: number): Check {
  return (name, value) => {
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= MAX_WHOLE) return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${shown(value)}; it must be a whole number from ${least} to ${MAX_WHOLE}.`,
    );
  };
}

export function oneOf(...allowed: readonly string[]): Check {
  return (name, value) => {
    if (allowed.includes(value as string)) return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${shown(value)}; it must be ${allowed.map((a) => `"${a}"`).join(" or ")}.`,
    );
  };
}

export function isText(name: string, value: unknown): void {
  if (typeof value === "string" && value !== "") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${shown(value)}; it must be a string that is not empty.`,
  );
}

export function isBoolean(name: string, value: unknown): void {
  if (typeof value === "boolean") return;
  throw new NevertwiceError("options-invalid", `${name} must be true or false; it is ${shown(value)}.`);
}

export function isClock(name: string, value: unknown): void {
  if (typeof (value as Clock | null)?.now === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an object with a now() that answers milliseconds.`,
  );
}

export function isFunction(name: string, value: unknown): void {
  if (typeof value === "function") return;
  throw new NevertwiceError("options-invalid", `${name} is ${shown(value)}; it must be a function.`);
}

function shown(value: unknown): string {
  return typeof value === "string"
    ? JSON.stringify(value)
    : typeof value === "object" && value !== null
      ? "an object"
      : String(value);
}

/**
 * Checks an options object against a table of checks, by name. An option that is undefined counts as not given; one
 * that no table knows is a mistake and is refused, since ignoring it would ignore what somebody relies on.
 */
export function checkOptions(options: object, checks: Readonly<Record<string, Check>>): void {
  if (typeof options !== "object" || options === null)
    throw new NevertwiceError(
      "options-invalid",
      `the options are ${shown(options)}; they must be an object.`,
    );
  for (const name in options) {
    const value = (options as Record<string, unknown>)[name];
    if (value === undefined) continue;
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined)
      throw new NevertwiceError("options-invalid", `there is no option called ${JSON.stringify(name)}.`);
    check(name, value);
  }
}

/** The base policy with what `options` (already checked) says otherwise; the base itself if they say nothing. */
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
  // Whoever takes over asks nobody: what the base says about asking goes with its hold.
  if (onLapsed === "takeover" && reconcile === undefined) policy.reconcile = undefined;
  checkTogether(policy as unknown as Policy);
  return policy as unknown as Policy;
}

/** Refuses policies that contradict each other. One that is not given contradicts nothing. */
export function checkTogether({ reconcile, onLapsed, onUnavailable }: PolicyOptions): void {
  if (onLapsed === "hold" && onUnavailable === "proceed") {
    throw new NevertwiceError(
      "options-invalid",
      'onUnavailable: "proceed" and onLapsed: "hold" contradict each other.',
    );
  }
  if (reconcile !== undefined && onLapsed === "takeover") {
    throw new NevertwiceError(
      "options-invalid",
      'reconcile is asked about held claims only: it needs onLapsed: "hold".',
    );
  }
}
