/** The checks of the options that all adapters share, run once, when a layer is created. */
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
import { POLICY_CHECKS } from "../core/policy.ts";
import { isOperation } from "../core/reserved.ts";
import type { Current } from "./current-replay.ts";
import { HTTP_DEFAULTS, type LimitName } from "./options.ts";
import { PROFILE_NAMES } from "./profile-names.ts";
import { NEVER_REPLAYED } from "./replay.ts";

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
  key: isFunction,
  skip: isFunction,
  strict: isBoolean,
  maxKeyLength: wholeFrom(1),
  keyPattern: isPattern,
  maxBodyBytes: wholeFrom(0),
  fingerprint: isFingerprintHow,
  keep: isKeep,
  replay: isReplay,
  replayHeaders: isReplayHeaders,
  replayedHeader: isHeaderName,
  onNotKept: oneOf("status", "refuse"),
  redact: isFunction,
  refusal: isFunction,
  expired: oneOf("run", "refuse"),
  refuseMs: wholeFrom(1),
  authorize: isFunction,
  quota: isQuota,
  maxWaiting: isWaitingLimits,
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
    typeof method === "string" && /^[A-Z]+$/i.test(method) && !SAFE_METHODS.includes(method.toUpperCase());
  if (Array.isArray(value) && value.length > 0 && value.every(isFit)) return;
  throw invalid(name, `a list of methods, without ${SAFE_METHODS.join(", ")}`);
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
  if (isHow || typeof value === "function" || isFingerprintParts(value)) return;
  throw invalid(
    name,
    '"json", "raw", "content-digest", "none", a function, or an object with without and one of fields and of: { fields: ["amount", "items.0.price"] }, { without: ["path", "sentAt"] }. Member names are joined by dots, without patterns',
  );
}

function isFingerprintParts(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { fields, of, without, ...others } = value as Record<string, unknown>;
  if (Object.keys(others).length > 0 || (fields ?? of ?? without) === undefined) return false;
  if (of !== undefined && (typeof of !== "function" || fields !== undefined)) return false;
  return (fields === undefined || arePaths(fields)) && (without === undefined || arePaths(without));
}

function arePaths(paths: unknown): boolean {
  // A pattern, or a path in JSONPath or JMESPath, would match no member, and all bodies would count as the same.
  const isPath = (path: unknown) =>
    typeof path === "string" && /^[^.*[\]]+(\.[^.*[\]]+)*$/.test(path) && !/^\$(\.|$)/.test(path);
  return Array.isArray(paths) && paths.length > 0 && paths.every(isPath);
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

const WAITING = Object.keys(HTTP_DEFAULTS.maxWaiting);

function isWaitingLimits(name: string, value: unknown): void {
  if (
    typeof value !== "object" ||
    value === null ||
    !Object.keys(value).every((limit) => WAITING.includes(limit))
  )
    throw invalid(name, `an object with ${WAITING.join(", ")}`);
  for (const [limit, most] of Object.entries(value))
    if (most !== undefined) wholeFrom(0)(`${name}.${limit}`, most);
}

function invalid(name: string, expected: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${name} must be ${expected}.`);
}

/** Throws `options-invalid` for unknown, invalid or contradicting options, and if `scope` is missing: sharing keys must be explicit. */
export function checkHttpOptions(options: object): void {
  checkOptions(options, HTTP_CHECKS);
  const { key, keyField } = options as { readonly key?: unknown; readonly keyField?: unknown };
  if (key !== undefined && keyField !== undefined)
    throw new NevertwiceError("options-invalid", "key and keyField are both given; a request has one key.");
  if ((options as { scope?: unknown }).scope === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'scope is missing; set it to a function that returns the owner of the authenticated request, or to "anyone".',
    );
  }
}
