/** Every option of `createFetch`, its default and its check. */
import { type Clock, systemClock, systemTimer, type Timer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions, isClock, isFunction, oneOf, wholeFrom } from "../core/policy.ts";
import { type KeyFormat, keyHeaderValue, randomKey } from "./key.ts";
import { isKeyStorage, type KeyStorage } from "./key-book.ts";

/** What `createFetch` needs of a fetch, and gives. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A try failed and another one follows after `pauseMs`. It carries no key. */
export interface RetryEvent {
  readonly method: string;
  readonly url: string;
  /** How many were made so far. */
  readonly tries: number;
  readonly pauseMs: number;
  readonly hasKey: boolean;
  /** Of the answer, if there was one. */
  readonly status?: number;
  /** What fetch threw, if there was no answer. */
  readonly error?: unknown;
}

/** docs/client.md explains each. Durations are milliseconds. */
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

type Given = { readonly [Name in keyof FetchOptions]-?: Exclude<FetchOptions[Name], undefined> };

export interface Settings extends Omit<Given, "storage"> {
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

/** Told to correct the request: the same one again cannot help. */
export const NEVER_RETRIED: readonly number[] = [400, 422];

const CHECKS: { readonly [Name in keyof FetchOptions]-?: Check } = {
  fetch: isFunction,
  header: matches(/^[\w!#$%&'*+.^`|~-]+$/, "the name of a header"),
  format: oneOf("string", "bare"),
  methods: listOf((value) => typeof value === "string" && /^[A-Z]+$/.test(value), "methods in capitals"),
  newKey: isFunction,
  storage: isKeyStorage,
  retries: wholeFrom(0),
  retryStatuses: listOf(isRetryStatus, `error statuses other than ${NEVER_RETRIED.join(" and ")}`),
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

/** Fails with `options-invalid`. */
export function settingsOf(options: FetchOptions): Settings {
  checkOptions(options, CHECKS);
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const settings: Settings = {
    // Looked up at each call, so that whoever replaces the global later is heard.
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
  // Past the window the server has forgotten the key, and a retry would be a second execution.
  if (settings.deadlineMs >= settings.windowMs)
    throw new NevertwiceError("options-invalid", "deadlineMs must be shorter than windowMs.");
  return settings;
}

/** A new key that is known to be one. Fails with `key-invalid` on what `newKey` makes otherwise. */
export function newKeyOf({ newKey, format }: Settings): string {
  const key = newKey();
  keyHeaderValue(key, format);
  return key;
}

function matches(pattern: RegExp, meant: string): Check {
  return (name, value) => {
    if (typeof value === "string" && pattern.test(value)) return;
    throw new NevertwiceError("options-invalid", `${name} must be ${meant}.`);
  };
}

function listOf(isOne: (value: unknown) => boolean, meant: string): Check {
  return (name, value) => {
    if (Array.isArray(value) && value.every(isOne)) return;
    throw new NevertwiceError("options-invalid", `${name} must be a list of ${meant}.`);
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
