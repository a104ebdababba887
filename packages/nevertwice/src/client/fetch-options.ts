/** The options of `createFetch`, with their defaults and checks. */
import { type Clock, systemClock, systemTimer, type Timer } from "../core/clock.ts";
import { givenOptions } from "../core/option-checks.ts";
import { optionsInvalid } from "./client-error.ts";
import { type KeyFormat, randomKey } from "./key.ts";
import { KEY_STORAGE, type KeyStorage } from "./key-book.ts";
import {
  applyRules,
  isFunction,
  listWhere,
  matches,
  type OptionRules,
  objectWith,
  valueThat,
  wholeFrom,
} from "./option-rules.ts";

/** The part of fetch's type that `createFetch` uses. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A try has failed, and another one follows after `pauseMs`. The event does not contain the key. */
export interface RetryEvent {
  /** The method of the request. */
  readonly method: string;
  /** Where the request is sent. */
  readonly url: string;
  /** The number of tries so far. */
  readonly tries: number;
  /** How long the client waits before the next try. */
  readonly pauseMs: number;
  /** Whether the request carries a key. */
  readonly hasKey: boolean;
  /** The status of the answer, if there was one. */
  readonly status?: number;
  /** What fetch threw, if there was no answer. */
  readonly error?: unknown;
}

/** Options of `createFetch`. Durations are in milliseconds. */
export interface FetchOptions {
  /**
   * Sends the requests. It must not come from `createFetch`: nested retries would multiply.
   * @default the global `fetch`
   */
  readonly fetch?: Fetch | undefined;
  /**
   * The name of the header that carries the key.
   * @default "Idempotency-Key"
   */
  readonly header?: string | undefined;
  /**
   * `"string"` sends the key in double quotes (RFC 9651); `"bare"` without, for services such as Stripe.
   * @default "string"
   */
  readonly format?: KeyFormat | undefined;
  /**
   * The methods whose requests get a key.
   * @default ["POST", "PATCH"]
   */
  readonly methods?: readonly string[] | undefined;
  /**
   * Makes a key.
   * @default a random UUID
   */
  readonly newKey?: (() => string) | undefined;
  /**
   * Keeps the keys of calls with an `idempotencyName`, so that they survive the process.
   * @default none
   */
  readonly storage?: KeyStorage | undefined;
  /**
   * How many tries may follow the first one.
   * @default 6
   */
  readonly retries?: number | undefined;
  /**
   * The statuses after which a request is sent again. A 409 with `Retry-After` is, too.
   * @default [408, 425, 429, 500, 502, 503, 504]
   */
  readonly retryStatuses?: readonly number[] | undefined;
  /**
   * The upper bound of the first pause, which doubles with each try. Pauses are random.
   * @default 500
   */
  readonly firstPauseMs?: number | undefined;
  /**
   * The upper bound of every pause.
   * @default 8_000
   */
  readonly maxPauseMs?: number | undefined;
  /**
   * The longest `Retry-After` that the client waits for. With a longer one, the caller gets the
   * response.
   * @default 60_000
   */
  readonly maxRetryAfterMs?: number | undefined;
  /**
   * How long one try may take until its headers have arrived; with a kept key, until its body has. `0`:
   * no limit but the deadline.
   * @default 30_000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long all tries may take together, with their pauses. Must be shorter than `windowMs`.
   * @default 120_000
   */
  readonly deadlineMs?: number | undefined;
  /**
   * How long the server remembers a key. A later retry would run the request again.
   * @default 86_400_000 (24 h)
   */
  readonly windowMs?: number | undefined;
  /** Called before each retry. It never gets the key. */
  readonly onRetry?: ((event: RetryEvent) => unknown) | undefined;
  /**
   * Chooses the pauses: a number from 0 to below 1.
   * @default Math.random
   */
  readonly random?: (() => number) | undefined;
  /**
   * Tells the time, for dates in `Retry-After` and the age of kept keys.
   * @default the system clock
   */
  readonly clock?: Clock | undefined;
  /**
   * Measures pauses and timeouts; for tests.
   * @default the timer of the platform
   */
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
  retries: 6,
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

const RULES: OptionRules<FetchOptions> = {
  fetch: isFunction,
  header: valueThat(matches(/^[\w!#$%&'*+.^`|~-]+$/), "a header name"),
  format: valueThat(matches(/^(string|bare)$/), '"string" or "bare"'),
  methods: listWhere(matches(/^[A-Z]+$/), "methods in upper case"),
  newKey: isFunction,
  storage: KEY_STORAGE,
  retries: wholeFrom(0),
  retryStatuses: listWhere(isRetryStatus, "error statuses except 400 and 422"),
  firstPauseMs: wholeFrom(1),
  maxPauseMs: wholeFrom(1),
  maxRetryAfterMs: wholeFrom(0),
  timeoutMs: wholeFrom(0),
  deadlineMs: wholeFrom(1),
  windowMs: wholeFrom(1),
  onRetry: isFunction,
  random: isFunction,
  clock: objectWith("now"),
  timer: objectWith("now", "after"),
};

/** Throws `options-invalid`. */
export function resolveFetchOptions(options: FetchOptions): FetchSettings {
  applyRules(options, RULES);
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
    throw optionsInvalid("deadlineMs must be shorter than windowMs.");
  return settings;
}

function isRetryStatus(value: unknown): boolean {
  const status = value as number;
  return Number.isInteger(status) && status >= 400 && status <= 599 && !NEVER_RETRIED.includes(status);
}
