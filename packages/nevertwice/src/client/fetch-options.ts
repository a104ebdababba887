/** The options of `createFetch`, with their defaults and checks. */
import { type Clock, systemClock, systemTimer, type Timer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import {
  type Check,
  checkOptions,
  givenOptions,
  isClock,
  isFunction,
  oneOf,
  wholeFrom,
} from "../core/option-checks.ts";
import { type KeyFormat, keyHeaderValue, randomKey } from "./key.ts";
import { isKeyStorage, type KeyStorage } from "./key-book.ts";

/** The part of fetch's type that `createFetch` uses. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A try has failed, and another one follows after `pauseMs`. The event does not contain the key. */
export interface RetryEvent {
  readonly method: string;
  readonly url: string;
  /** The number of tries so far. */
  readonly tries: number;
  readonly pauseMs: number;
  readonly hasKey: boolean;
  /** The status of the answer, if there was one. */
  readonly status?: number;
  /** What fetch threw, if there was no answer. */
  readonly error?: unknown;
}

/** docs/client.md explains each option. Durations are in milliseconds. */
export interface FetchOptions {
  readonly fetch?: Fetch | undefined;
  readonly header?: string | undefined;
  readonly format?: KeyFormat | undefined;
  readonly methods?: readonly string[] | undefined;
  readonly newKey?: (() => string) | undefined;
  readonly storage?: KeyStorage | undefined;
  readonly retries?: number | undefined;
  readonly retryStatuses?: readonly number[] | undefined;
  readonly firstPauseMs?: number | undefined;
  readonly maxPauseMs?: number | undefined;
  readonly maxRetryAfterMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly deadlineMs?: number | undefined;
  readonly windowMs?: number | undefined;
  readonly onRetry?: ((event: RetryEvent) => unknown) | undefined;
  readonly random?: (() => number) | undefined;
  readonly clock?: Clock | undefined;
  readonly timer?: Timer | undefined;
}

type GivenFetchOptions = { readonly [Name in keyof FetchOptions]-?: Exclude<FetchOptions[Name], undefined> };

export interface FetchSettings extends Omit<GivenFetchOptions, "storage"> {
  readonly storage: KeyStorage | undefined;
}

export const FETCH_DEFAULTS = {
  header: "Idempotency-Key",
  format: "string",
  methods: ["POST", "PATCH"],
  retries: 4,
  retryStatuses: [408, 425, 429, 500, 502, 503, 504],
  firstPauseMs: 500,
  maxPauseMs: 8_000,
  maxRetryAfterMs: 60_000,
  timeoutMs: 30_000,
  deadlineMs: 120_000,
  windowMs: 86_400_000,
} as const;

/** These statuses ask the client to correct the request, so sending the same request again cannot help. */
export const NEVER_RETRIED: readonly number[] = [400, 422];

const CHECKS: { readonly [Name in keyof FetchOptions]-?: Check } = {
  fetch: isFunction,
  header: matches(/^[\w!#$%&'*+.^`|~-]+$/, "a header name"),
  format: oneOf("string", "bare"),
  methods: isArrayWhere(
    (value) => typeof value === "string" && /^[A-Z]+$/.test(value),
    "methods in upper case",
  ),
  newKey: isFunction,
  storage: isKeyStorage,
  retries: wholeFrom(0),
  retryStatuses: isArrayWhere(isRetryStatus, `error statuses other than ${NEVER_RETRIED.join(" and ")}`),
  firstPauseMs: wholeFrom(1),
  maxPauseMs: wholeFrom(1),
  maxRetryAfterMs: wholeFrom(0),
  timeoutMs: wholeFrom(0),
  deadlineMs: wholeFrom(1),
  windowMs: wholeFrom(1),
  onRetry: isFunction,
  random: isFunction,
  clock: isClock,
  timer: isTimer,
};

/** Throws `options-invalid`. */
export function resolveFetchOptions(options: FetchOptions): FetchSettings {
  checkOptions(options, CHECKS);
  const given = givenOptions(options);
  const settings: FetchSettings = {
    // Looked up at each call, so that a later replacement of the global fetch takes effect.
    fetch: (input, init) => globalThis.fetch(input, init),
    newKey: randomKey,
    storage: undefined,
    onRetry: () => {},
    random: Math.random,
    clock: systemClock,
    timer: systemTimer,
    ...FETCH_DEFAULTS,
    ...given,
  };
  // After `windowMs` the server has forgotten the key, and a retry would run the request a second time.
  if (settings.deadlineMs >= settings.windowMs)
    throw new NevertwiceError("options-invalid", "deadlineMs must be shorter than windowMs.");
  return settings;
}

/** A new key. Throws `key-invalid` if `newKey` returns an invalid one. */
export function createKey({ newKey, format }: FetchSettings): string {
  const key = newKey();
  keyHeaderValue(key, format);
  return key;
}

function matches(pattern: RegExp, expected: string): Check {
  return (name, value) => {
    if (typeof value === "string" && pattern.test(value)) return;
    throw new NevertwiceError("options-invalid", `${name} must be ${expected}.`);
  };
}

function isArrayWhere(isOne: (value: unknown) => boolean, expected: string): Check {
  return (name, value) => {
    if (Array.isArray(value) && value.every(isOne)) return;
    throw new NevertwiceError("options-invalid", `${name} must be a list of ${expected}.`);
  };
}

function isRetryStatus(value: unknown): boolean {
  const status = value as number;
  return Number.isInteger(status) && status >= 400 && status <= 599 && !NEVER_RETRIED.includes(status);
}

function isTimer(name: string, value: unknown): void {
  const timer = value as Partial<Timer> | null;
  if (typeof timer?.now === "function" && typeof timer.after === "function") return;
  throw new NevertwiceError("options-invalid", `${name} must be an object with now() and after(ms, action).`);
}
