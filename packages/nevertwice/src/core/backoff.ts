/** How long to wait before a retry, and the wait itself. */
import type { Timer } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";
import { type Check, checkOptions, givenOptions, oneOf, wholeFrom } from "./option-checks.ts";

export const STRATEGIES = ["constant", "linear", "exponential"] as const;

export interface Backoff {
  /** How many retries are made: with 3, there are up to four tries. */
  readonly max: number;
  /** Whether the wait before each retry stays the same, grows by `baseMs`, or doubles. */
  readonly strategy: (typeof STRATEGIES)[number];
  readonly baseMs: number;
  /** The longest wait. */
  readonly capMs: number;
  /** The random part of a wait, from 0 to 1, so that callers that failed together do not retry together. */
  readonly jitter: number;
}

/** The options of a retry: how often, and how long the pauses between the tries are. Each has a default. */
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

/** Checks the given options, and fills in the defaults. */
export function toBackoff(options: BackoffOptions): Backoff {
  checkOptions(options, BACKOFF_CHECKS);
  return { ...BACKOFF_DEFAULTS, ...givenOptions(options) };
}

/** The wait before a retry; the first one is `retry` 1. `random` is from 0 to 1. */
export function backoffMs(
  { strategy, baseMs, capMs, jitter }: Backoff,
  retry: number,
  random: number,
): number {
  const factor = strategy === "constant" ? 1 : strategy === "linear" ? retry : 2 ** (retry - 1);
  const wholeMs = Math.min(capMs, baseMs * factor);
  return Math.round(wholeMs * (1 - jitter * random));
}

/** Resolves after `ms`, or as soon as the signal fires. The caller then checks the signal. */
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
