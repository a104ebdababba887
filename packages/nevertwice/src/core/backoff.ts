/** How long to wait before a try is made again, and the waiting itself. */
import type { Timer } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";
import { type Check, checkOptions, oneOf, wholeFrom } from "./policy.ts";

export const STRATEGIES = ["constant", "linear", "exponential"] as const;

export interface Backoff {
  /** How many times it is tried again: with 3, there are up to four tries. */
  readonly max: number;
  /** The wait before each retry: the same, growing by `baseMs`, or doubling. */
  readonly strategy: (typeof STRATEGIES)[number];
  readonly baseMs: number;
  /** No wait is longer. */
  readonly capMs: number;
  /** How much of a wait is left to chance, from 0 to 1: callers that failed together come back apart. */
  readonly jitter: number;
}

export type BackoffOptions = { readonly [Name in keyof Backoff]?: Backoff[Name] | undefined };

export const BACKOFF_DEFAULTS: Backoff = {
  max: 0,
  strategy: "exponential",
  baseMs: 100,
  capMs: 30_000,
  jitter: 0.5,
};

const BACKOFF_CHECKS: { readonly [Name in keyof Backoff]: Check } = {
  max: wholeFrom(0),
  strategy: oneOf(...STRATEGIES),
  baseMs: wholeFrom(0),
  capMs: wholeFrom(0),
  jitter(name, value) {
    if (typeof value === "number" && value >= 0 && value <= 1) return;
    throw new NevertwiceError("options-invalid", `${name} is ${String(value)}; it must be from 0 to 1.`);
  },
};

/** Checks what is given, and fills in the rest. */
export function backoffOf(options: BackoffOptions): Backoff {
  checkOptions(options, BACKOFF_CHECKS);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...BACKOFF_DEFAULTS, ...Object.fromEntries(given) };
}

/** The wait before retry `retry`, of which the first is 1. `random` is from 0 to 1. */
export function backoffMs(
  { strategy, baseMs, capMs, jitter }: Backoff,
  retry: number,
  random: number,
): number {
  const factor = strategy === "constant" ? 1 : strategy === "linear" ? retry : 2 ** (retry - 1);
  const wholeMs = Math.min(capMs, baseMs * factor);
  return Math.round(wholeMs * (1 - jitter * random));
}

/** Resolves after `ms`, or as soon as a signal fires: whoever waits looks at the signal. */
export function pause(timer: Timer, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancel = timer.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
  });
}
