/**
 * Anti-flapping: a parameter that is set to similar values again and again within a short sliding window is flapping. Call
 * `check` before an automated adjustment; the verdict says whether it is one change too many.
 */

import { type Clock, systemClock, systemTimer } from "../core/clock.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isClock, isFunction, oneOf, wholeFrom } from "../core/option-checks.ts";
import { callWithin, isRefusal } from "../core/store-call.ts";
import { randomToken } from "../core/token.ts";
import {
  MOST_CHANGES,
  memoryWindow,
  type Window,
  type WindowAnswer,
  type WindowRequest,
} from "../core/window.ts";

export type { Window, WindowAnswer, WindowRequest, WindowRule } from "../core/window.ts";

/** Options of `createFlapping`. Durations are milliseconds. */
export interface FlappingOptions {
  /**
   * How long a change counts, in milliseconds.
   * @default 60_000 (60 s)
   */
  readonly windowMs?: number | undefined;
  /**
   * The largest relative difference between two values that count as similar: 0.01 is one percent.
   * @default 0.01
   */
  readonly similarity?: number | undefined;
  /**
   * How many similar changes the window may contain. The next one is flapping. At most 1,000.
   * @default 3
   */
  readonly maxChanges?: number | undefined;
  /** Shared by all processes that make the same adjustments; by default, a window in the memory of this process. */
  readonly window?: Window | undefined;
  /**
   * What `check` does if the shared window cannot answer: it fails with `unavailable`, or judges by a window
   * of this process.
   * @default "refuse"
   */
  readonly onUnavailable?: "refuse" | "proceed" | undefined;
  /**
   * How long `check` waits for the shared window, in milliseconds.
   * @default 5_000 (5 s)
   */
  readonly storeTimeoutMs?: number | undefined;
  /** Receives every event. What it throws is ignored. */
  readonly observer?: FlappingObserver | undefined;
  /** The clock of this process's own window; a shared window uses the clock of its server. */
  readonly clock?: Clock | undefined;
  /**
   * For how many parameters this process's own window remembers changes. Another one fails with `store-full`.
   * @default 10_000
   */
  readonly maxParameters?: number | undefined;
}

/** What a `Flapping` reports to its observer. */
export type FlappingEvent =
  | {
      readonly kind: "flapping";
      /** The parameter that was to be changed. */
      readonly parameter: string;
      /** Its new value. */
      readonly value: number;
      /** How many similar changes were in the window. */
      readonly similar: number;
      /** A sentence with the parameter, the number of changes and the window. */
      readonly reason: string;
    }
  /** The window did not answer. */
  | {
      readonly kind: "unavailable";
      readonly parameter: string;
      /** The error of the window. */
      readonly cause: unknown;
    }
  /** The change was judged by this process's own window instead. */
  | { readonly kind: "proceeded"; readonly parameter: string };

/** May be async. What it throws is ignored: observing must not break the check. */
export type FlappingObserver = (event: FlappingEvent) => unknown;

/** `similar`: how many similar changes were in the window before this one. */
export type FlappingVerdict =
  | {
      /** True if the change should not be made. It is not recorded then. */
      readonly flapping: false;
      /** How many similar changes were in the window before this one. */
      readonly similar: number;
      readonly reason?: undefined;
      readonly leftMs?: undefined;
    }
  | {
      readonly flapping: true;
      readonly similar: number;
      /** A sentence with the parameter, the number of changes and the window. */
      readonly reason: string;
      /** How long until such a change passes again, if no other is recorded before. */
      readonly leftMs: number;
    };

/** Judges changes of parameters, so that an automatic adjustment does not swing back and forth. */
export interface Flapping {
  /**
   * Judges a change before it is made, and records it unless it is flapping, in one atomic step. Throws `options-invalid`
   * for a bad parameter or value, and `unavailable` if the window cannot answer.
   */
  check(parameter: string, value: number): Promise<FlappingVerdict>;
  /** Removes the changes of one parameter, or of all. */
  clear(parameter?: string): Promise<void>;
}

/** The defaults of `FlappingOptions`. */
export const FLAPPING_DEFAULTS = {
  windowMs: 60_000,
  similarity: 0.01,
  maxChanges: 3,
  onUnavailable: "refuse",
  storeTimeoutMs: 5_000,
  maxParameters: 10_000,
} as const;

const CHECKS: Readonly<Record<string, Check>> = {
  windowMs: wholeFrom(1),
  similarity: isSimilarity,
  maxChanges: isMaxChanges,
  window: isWindow,
  onUnavailable: oneOf("refuse", "proceed"),
  storeTimeoutMs: wholeFrom(1),
  observer: isFunction,
  clock: isClock,
  maxParameters: wholeFrom(1),
};

const CALLER = { store: {}, timer: systemTimer };

/**
 * Creates a judge of changes: it says when a value is changed back and forth too often.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createFlapping } from "nevertwice/flapping";
 *
 * const flapping = createFlapping({ windowMs: 60_000, maxChanges: 3 });
 * const { flapping: isFlapping } = await flapping.check("pool size", 20);
 * if (!isFlapping) console.log("the pool gets 20 connections");
 * ```
 */
export function createFlapping(options: FlappingOptions = {}): Flapping {
  checkOptions(options, CHECKS);
  const {
    windowMs = FLAPPING_DEFAULTS.windowMs,
    similarity = FLAPPING_DEFAULTS.similarity,
    maxChanges = FLAPPING_DEFAULTS.maxChanges,
    onUnavailable = FLAPPING_DEFAULTS.onUnavailable,
    storeTimeoutMs = FLAPPING_DEFAULTS.storeTimeoutMs,
    maxParameters = FLAPPING_DEFAULTS.maxParameters,
    clock = systemClock,
    observer,
  } = options;
  const own = memoryWindow(clock, maxParameters);
  const window = options.window ?? own;
  const notify = (event: FlappingEvent) => harmless(() => observer?.(event));
  const hasSubstitute = window !== own && onUnavailable === "proceed";

  async function judge(request: WindowRequest): Promise<WindowAnswer> {
    try {
      const answer = await callWithin(CALLER, storeTimeoutMs, () => window.record(request));
      // Recorded here too, so that an outage does not begin with an empty window. If there is no room, that is no error.
      if (hasSubstitute && !answer.flapping) await own.record(request).catch(() => {});
      return answer;
    } catch (cause) {
      if (isRefusal(cause)) throw cause;
      const { parameter } = request;
      notify({ kind: "unavailable", parameter, cause });
      if (!hasSubstitute) throw unavailable(cause, "do not make the change, and try again");
      notify({ kind: "proceeded", parameter });
      return own.record(request);
    }
  }

  return {
    async check(parameter, value) {
      checkedPart(parameter, "parameter", "options-invalid");
      checkValue(parameter, value);
      const request = { parameter, value, windowMs, similarity, maxChanges, token: randomToken() };
      const answer = await judge(request);
      const { flapping, similar } = answer;
      if (!flapping) return { flapping, similar };
      const reason = describeFlapping(request, answer);
      notify({ kind: "flapping", parameter, value, similar, reason });
      return { flapping, similar, reason, leftMs: answer.leftMs };
    },
    async clear(parameter) {
      if (parameter !== undefined) checkedPart(parameter, "parameter", "options-invalid");
      await own.clear(parameter);
      if (window === own) return;
      try {
        await callWithin(CALLER, storeTimeoutMs, () => window.clear(parameter));
      } catch (cause) {
        throw unavailable(cause, "try again");
      }
    },
  };
}

function unavailable(cause: unknown, advice: string): NevertwiceError {
  if (isNevertwiceError(cause)) return cause;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new NevertwiceError("unavailable", `the window cannot answer: ${reason}; ${advice}.`, { cause });
}

function describeFlapping(
  { parameter, value, windowMs, maxChanges }: WindowRequest,
  { similar, leftMs }: WindowAnswer & { flapping: true },
): string {
  const changes = similar === 1 ? "1 change" : `${similar} changes`;
  return `${JSON.stringify(parameter)} had ${changes} to about ${value} within ${duration(windowMs)}, and at most ${maxChanges} are allowed: it is flapping. Such a change passes again in ${duration(leftMs)}.`;
}

function duration(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`;
}

function checkValue(parameter: string, value: unknown): void {
  if (Number.isFinite(value)) return;
  const found =
    typeof value === "number" ? value : value === null ? "null" : `a value of type ${typeof value}`;
  throw new NevertwiceError(
    "options-invalid",
    `the value for ${JSON.stringify(parameter)} is ${found}; it must be a finite number.`,
  );
}

/** Above 0, since computed values are hardly ever exactly equal. */
function isSimilarity(name: string, value: unknown): void {
  if (typeof value === "number" && value > 0 && value <= 0.5) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${String(value)}; it must be a number above 0 and at most 0.5 (0.01 is one per cent).`,
  );
}

function isMaxChanges(name: string, value: unknown): void {
  if (Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= MOST_CHANGES) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${String(value)}; it must be a whole number from 1 to ${MOST_CHANGES}.`,
  );
}

function isWindow(name: string, value: unknown): void {
  const methods = ["record", "clear"] as const;
  const missing = methods.filter(
    (method) => typeof (value as Partial<Window> | null)?.[method] !== "function",
  );
  if (missing.length > 0)
    throw new NevertwiceError(
      "options-invalid",
      `${name} is not a window: it lacks ${missing.join(", ")}. redisWindow({ client }) creates one.`,
    );
}
