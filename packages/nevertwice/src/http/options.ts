/** The options that all adapters share, with their defaults and checks. */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import {
  type Check,
  checkOptions,
  isBoolean,
  isClock,
  isFunction,
  isText,
  oneOf,
  wholeFrom,
} from "../core/option-checks.ts";
import { POLICY_CHECKS, type PolicyOptions } from "../core/policy.ts";
import { isOperation } from "../core/reserved.ts";
import type { KeepDecision } from "./http-attempt.ts";
import type { HttpResponse } from "./http-message.ts";
import { PROFILE_NAMES, type ProfileName } from "./profile-names.ts";
import { type Current, NEVER_REPLAYED } from "./replay.ts";

type Awaitable<T> = T | PromiseLike<T>;

/** A response, as the function `keep` receives it. */
export interface JudgedResponse extends HttpResponse {
  header(name: string): string | undefined;
}

type StatusClass = `${1 | 2 | 3 | 4 | 5}xx`;
type KeepByStatus = { readonly [status: number]: KeepDecision } & {
  readonly [Class in StatusClass]?: KeepDecision;
};

/** One decision, decisions by status (`402`) or class (`"5xx"`), or a function. Without a decision, the default applies. */
export type Keep<Native> =
  | KeepDecision
  | KeepByStatus
  | ((response: JudgedResponse, request: Native) => KeepDecision | undefined);

/** Which part of the body decides whether two requests are the same. */
export type FingerprintHow =
  | "json"
  | "raw"
  | "content-digest"
  | "none"
  | { readonly fields: readonly string[] };

/** All processes on one store share the counts. They take each limit in blocks of a 64th. */
export interface QuotaLimits {
  /** Keys of one scope. */
  readonly keys?: number | undefined;
  /** Bytes of the kept responses of one scope. */
  readonly bytes?: number | undefined;
  /** Keys of all scopes together. */
  readonly totalKeys?: number | undefined;
  /** Bytes of the kept responses of all scopes together. */
  readonly totalBytes?: number | undefined;
}

export type LimitName = keyof QuotaLimits;

/** docs/options.md explains each option. Every policy of the guard can be set here too. */
export interface HttpOptions<Native> extends PolicyOptions {
  /** Returns the owner of a key from the authenticated request. `"anyone"`: all callers share their keys. */
  readonly scope: "anyone" | ((request: Native) => Awaitable<string | undefined>);
  readonly profile?: ProfileName | undefined;
  /** Refuses requests without a key. */
  readonly required?: boolean | undefined;
  readonly methods?: readonly string[] | undefined;
  /** The operation that the key belongs to. Default: method and path. */
  readonly operation?: string | ((request: Native) => string) | undefined;
  readonly header?: string | undefined;
  /** The member of a JSON body that carries the key instead of a header. */
  readonly keyField?: string | undefined;
  /** Accepts keys only as RFC 9651 Strings. Otherwise keys without quotes are accepted too. */
  readonly strict?: boolean | undefined;
  readonly maxKeyLength?: number | undefined;
  readonly keyPattern?: RegExp | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly fingerprint?: FingerprintHow | undefined;
  readonly keep?: Keep<Native> | undefined;
  readonly replay?: "snapshot" | Current<Native> | undefined;
  readonly replayHeaders?: readonly string[] | undefined;
  readonly replayedHeader?: string | undefined;
  /** After its retention, a key runs again, or is refused for another `refuseMs`. */
  readonly expired?: "run" | "refuse" | undefined;
  readonly refuseMs?: number | undefined;
  /** Called for every request with a key, before the store is asked. */
  readonly authorize?: ((request: Native) => Awaitable<boolean>) | undefined;
  /** Limits the keys and bytes that are stored at once. A number limits the keys of one scope. */
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

/** Safe methods, which change nothing. A key has no meaning on them. */
const SAFE_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"];

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const HTTP_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  scope: isScope,
  profile: oneOf(...PROFILE_NAMES),
  required: isBoolean,
  methods: isMethods,
  operation: (name, value) => typeof value === "function" || isOperation(name, value),
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
  throw invalid(name, 'a function that returns the owner of the authenticated request, or "anyone"');
}

function isMethods(name: string, value: unknown): void {
  const isFit = (method: unknown) =>
    typeof method === "string" && /^[A-Z]+$/.test(method) && !SAFE_METHODS.includes(method);
  if (Array.isArray(value) && value.length > 0 && value.every(isFit)) return;
  throw invalid(name, `a list of methods in upper case, without ${SAFE_METHODS.join(", ")}`);
}

function isHeaderName(name: string, value: unknown): void {
  if (typeof value === "string" && TOKEN.test(value)) return;
  throw invalid(name, "a header name");
}

function isPattern(name: string, value: unknown): void {
  // With these flags, `test` continues after its last match, and would treat the same key differently each time.
  if (value instanceof RegExp && !value.global && !value.sticky) return;
  throw invalid(name, "a regular expression without the flags g and y");
}

function isFingerprintHow(name: string, value: unknown): void {
  const isHow = ["json", "raw", "content-digest", "none"].includes(value as string);
  if (isHow || isFields(value)) return;
  throw invalid(
    name,
    '"json", "raw", "content-digest", "none" or { fields: ["amount", "items.0.price"] }: member names joined by dots, without patterns',
  );
}

function isFields(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "fields") return false;
  const { fields } = value as { fields: unknown };
  // A pattern, or a path in JSONPath or JMESPath, would match no member, and all bodies would count as the same.
  const isPath = (path: unknown) =>
    typeof path === "string" && /^[^.*[\]]+(\.[^.*[\]]+)*$/.test(path) && !/^\$(\.|$)/.test(path);
  return Array.isArray(fields) && fields.length > 0 && fields.every(isPath);
}

const DECISIONS = ["keep", "release", "unknown", "marker"];

function isKeep(name: string, value: unknown): void {
  if (typeof value === "function" || DECISIONS.includes(value as string)) return;
  const isRule = ([status, decision]: [string, unknown]) =>
    /^([1-5]xx|[2-5]\d\d)$/.test(status) && DECISIONS.includes(decision as string);
  if (typeof value === "object" && value !== null && Object.entries(value).every(isRule)) return;
  throw invalid(
    name,
    `a function, one of ${DECISIONS.join(", ")}, or one of them by status: { 402: "release" }`,
  );
}

function isReplay(name: string, value: unknown): void {
  if (value === "snapshot" || typeof (value as Current<unknown> | null)?.current === "function") return;
  throw invalid(name, '"snapshot" or current(fn)');
}

function isReplayHeaders(name: string, value: unknown): void {
  if (!Array.isArray(value) || !value.every((header) => typeof header === "string" && TOKEN.test(header)))
    throw invalid(name, "a list of header names");
  const pattern = value.find((header: string) => header.includes("*"));
  if (pattern !== undefined) {
    throw new NevertwiceError(
      "options-invalid",
      `${name} contains ${JSON.stringify(pattern)}, but patterns are not supported; name each header.`,
    );
  }
  const banned = value.find((header: string) => isNeverReplayed(header.toLowerCase()));
  if (banned === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} contains ${banned}, which belongs to one client, connection or moment and is never replayed; remove it.`,
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
    throw invalid(name, `a number of keys, or an object with ${LIMITS.join(", ")}`);
  for (const [limit, most] of limits) if (most !== undefined) wholeFrom(1)(`${name}.${limit}`, most);
}

function invalid(name: string, expected: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${name} must be ${expected}.`);
}

/** Throws `options-invalid` for unknown or invalid options, and if `scope` is missing: sharing keys must be explicit. */
export function checkHttpOptions(options: object): void {
  checkOptions(options, HTTP_CHECKS);
  if ((options as { scope?: unknown }).scope === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'scope is missing; set it to a function that returns the owner of the authenticated request, or to "anyone".',
    );
  }
}
