/** The options of every adapter, their defaults and their checks. */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import {
  type Check,
  checkOptions,
  isBoolean,
  isClock,
  isFunction,
  isText,
  oneOf,
  POLICY_CHECKS,
  type PolicyOptions,
  wholeFrom,
} from "../core/policy.ts";
import type { HttpResponse, KeepDecision } from "./exchange.ts";
import { PROFILE_NAMES, type ProfileName } from "./profile-names.ts";
import { type Current, NEVER_REPLAYED } from "./replay.ts";

type Awaitable<T> = T | PromiseLike<T>;

/** An answer, as `keep` judges it. */
export interface JudgedResponse extends HttpResponse {
  header(name: string): string | undefined;
}

type StatusClass = `${1 | 2 | 3 | 4 | 5}xx`;
type KeepByStatus = { readonly [status: number]: KeepDecision } & {
  readonly [Class in StatusClass]?: KeepDecision;
};

/** By status (`402`), by class (`"5xx"`), or by the answer itself. What it does not decide is decided as ever. */
export type Keep<Native> =
  | KeepDecision
  | KeepByStatus
  | ((response: JudgedResponse, request: Native) => KeepDecision | undefined);

/** What of the body makes two requests the same. */
export type FingerprintHow =
  | "json"
  | "raw"
  | "content-digest"
  | "none"
  | { readonly fields: readonly string[] };

/** Counted by all processes on one store together, in blocks of a 64th of each limit. */
export interface QuotaLimits {
  /** Keys of one scope. */
  readonly keys?: number | undefined;
  /** Bytes of the kept answers of one scope. */
  readonly bytes?: number | undefined;
  /** Keys of all scopes together. */
  readonly totalKeys?: number | undefined;
  /** Bytes of the kept answers of all scopes together. */
  readonly totalBytes?: number | undefined;
}

export type LimitName = keyof QuotaLimits;

/** docs/options.md explains each; every policy of the guard may stand beside them. */
export interface HttpOptions<Native> extends PolicyOptions {
  /** Whom a key belongs to, from the authenticated request; or that it belongs to anyone who knows it. */
  readonly scope: "anyone" | ((request: Native) => Awaitable<string | undefined>);
  readonly profile?: ProfileName | undefined;
  /** Whether a request without a key is refused. */
  readonly required?: boolean | undefined;
  readonly methods?: readonly string[] | undefined;
  /** What the key is for. Default: method and path. */
  readonly operation?: string | ((request: Native) => string) | undefined;
  readonly header?: string | undefined;
  /** A member of a JSON body that carries the key instead of a header. */
  readonly keyField?: string | undefined;
  /** Only RFC 9651 Strings; else bare keys are taken too. */
  readonly strict?: boolean | undefined;
  readonly maxKeyLength?: number | undefined;
  readonly keyPattern?: RegExp | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly fingerprint?: FingerprintHow | undefined;
  readonly keep?: Keep<Native> | undefined;
  readonly replay?: "snapshot" | Current<Native> | undefined;
  readonly replayHeaders?: readonly string[] | undefined;
  readonly replayedHeader?: string | undefined;
  /** Whether a key past its retention runs anew, or is refused for `refuseMs` more. */
  readonly expired?: "run" | "refuse" | undefined;
  readonly refuseMs?: number | undefined;
  /** Asked before anything is looked up, for every request that has a key. */
  readonly authorize?: ((request: Native) => Awaitable<boolean>) | undefined;
  /** How much may be alive at once. A number limits the keys of one scope. */
  readonly quota?: number | QuotaLimits | undefined;
  readonly cors?: boolean | undefined;
  readonly problemBase?: string | undefined;
  readonly documentation?: string | false | undefined;
  readonly clock?: Clock | undefined;
}

export const HTTP_DEFAULTS = {
  profile: "ietf",
  required: false,
  methods: ["POST", "PATCH"],
  header: "Idempotency-Key",
  strict: false,
  maxKeyLength: 255,
  maxBodyBytes: 1_048_576,
  fingerprint: "json",
  replay: "snapshot",
  replayHeaders: [],
  replayedHeader: "Idempotent-Replayed",
  expired: "run",
  refuseMs: 2_592_000_000,
  cors: true,
  problemBase: "urn:nevertwice:error:",
  documentation: "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#",
} as const;

/** Methods that are safe by themselves: a key on them means nothing. */
const SAFE_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"];

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const HTTP_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  scope: isScope,
  profile: oneOf(...PROFILE_NAMES),
  required: isBoolean,
  methods: isMethods,
  operation: (name, value) => typeof value === "function" || void checkedPart(value, name, "options-invalid"),
  header: isHeaderName,
  keyField: isText,
  strict: isBoolean,
  maxKeyLength: wholeFrom(1),
  keyPattern: isPattern,
  maxBodyBytes: wholeFrom(0),
  fingerprint: isFingerprintHow,
  keep: isKeep,
  replay: isReplay,
  replayHeaders: isReplayHeaders,
  replayedHeader: isHeaderName,
  expired: oneOf("run", "refuse"),
  refuseMs: wholeFrom(1),
  authorize: isFunction,
  quota: isQuota,
  cors: isBoolean,
  problemBase: isText,
  documentation: (name, value) => value === false || isText(name, value),
  clock: isClock,
};

function isScope(name: string, value: unknown): void {
  if (typeof value === "function" || value === "anyone") return;
  throw invalid(name, 'a function from the authenticated request to its owner, or "anyone"');
}

function isMethods(name: string, value: unknown): void {
  const isFit = (method: unknown) =>
    typeof method === "string" && /^[A-Z]+$/.test(method) && !SAFE_METHODS.includes(method);
  if (Array.isArray(value) && value.length > 0 && value.every(isFit)) return;
  throw invalid(name, `a list of methods in capitals, none of ${SAFE_METHODS.join(", ")}`);
}

function isHeaderName(name: string, value: unknown): void {
  if (typeof value === "string" && TOKEN.test(value)) return;
  throw invalid(name, "the name of a header");
}

function isPattern(name: string, value: unknown): void {
  // A pattern that remembers where it stopped would judge every second key differently.
  if (value instanceof RegExp && !value.global && !value.sticky) return;
  throw invalid(name, "a regular expression without the flags g and y");
}

function isFingerprintHow(name: string, value: unknown): void {
  const isHow = ["json", "raw", "content-digest", "none"].includes(value as string);
  if (isHow || isFields(value)) return;
  throw invalid(name, '"json", "raw", "content-digest", "none" or { fields: ["amount", "card.last4"] }');
}

function isFields(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "fields") return false;
  const { fields } = value as { fields: unknown };
  const isPath = (path: unknown) => typeof path === "string" && /^[^.]+(\.[^.]+)*$/.test(path);
  return Array.isArray(fields) && fields.length > 0 && fields.every(isPath);
}

const DECISIONS = ["keep", "release", "unknown", "marker"];

function isKeep(name: string, value: unknown): void {
  if (typeof value === "function" || DECISIONS.includes(value as string)) return;
  const isRule = ([status, decision]: [string, unknown]) =>
    /^([1-5]xx|[2-5]\d\d)$/.test(status) && DECISIONS.includes(decision as string);
  if (typeof value === "object" && value !== null && Object.entries(value).every(isRule)) return;
  throw invalid(name, `a function, one of ${DECISIONS.join(", ")}, or these by status: { 402: "release" }`);
}

function isReplay(name: string, value: unknown): void {
  if (value === "snapshot" || typeof (value as Current<unknown> | null)?.current === "function") return;
  throw invalid(name, '"snapshot" or current(fn)');
}

function isReplayHeaders(name: string, value: unknown): void {
  if (!Array.isArray(value) || !value.every((header) => typeof header === "string" && TOKEN.test(header)))
    throw invalid(name, "a list of header names");
  const banned = value.find((header: string) => isNeverReplayed(header.toLowerCase()));
  if (banned === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} names ${banned}, which belongs to one client, connection or moment and is never replayed.`,
  );
}

function isNeverReplayed(name: string): boolean {
  return NEVER_REPLAYED.has(name) || name.startsWith("access-control-") || name.startsWith(":");
}

const LIMITS: readonly LimitName[] = ["keys", "bytes", "totalKeys", "totalBytes"];

function isQuota(name: string, value: unknown): void {
  const isKnown = ([limit]: [string, unknown]) => LIMITS.includes(limit as LimitName);
  const limits = typeof value === "object" && value !== null ? Object.entries(value) : [];
  if (typeof value === "number") wholeFrom(1)(name, value);
  else if (typeof value !== "object" || value === null || Array.isArray(value) || !limits.every(isKnown))
    throw invalid(name, `a number of keys, or an object of ${LIMITS.join(", ")}`);
  for (const [limit, most] of limits) if (most !== undefined) wholeFrom(1)(`${name}.${limit}`, most);
}

function invalid(name: string, wanted: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${name} must be ${wanted}.`);
}

/** Refuses unknown and unfit options, and the lack of a scope: nothing is shared because nobody said whose it is. */
export function checkHttpOptions(options: object): void {
  checkOptions(options, HTTP_CHECKS);
  if ((options as { scope?: unknown }).scope === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'scope is missing: give a function from the authenticated request to whom its keys belong, or "anyone".',
    );
  }
}
