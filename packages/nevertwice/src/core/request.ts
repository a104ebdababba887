/** A request to a guard, checked and computed once: changing the request object afterwards has no effect. */

import { requireRequest } from "./argument-checks.ts";
import { type DoorRules, findDoorRules } from "./door-rules.ts";
import { NevertwiceError } from "./errors.ts";
import { toFingerprint } from "./fingerprint.ts";
import { type Identity, toIdentity } from "./identity.ts";
import { type Key, keyText } from "./key.ts";
import { type Check, checkOptions, isFunction } from "./option-checks.ts";
import { mergePolicy, POLICY_CHECKS, type Policy, type PolicyOptions } from "./policy.ts";
import { isOurs, refuseReserved } from "./reserved.ts";
import type { WaitUntil } from "./wait-until.ts";

/** Names one piece of work. */
export interface Subject {
  /** What the key is for: a label that you choose, and the same wherever the same work is guarded. */
  readonly operation: string;
  /** An optional first part of the operation: domain "billing" and operation "charge" give "billing:charge". */
  readonly domain?: string | undefined;
  /** Who the key belongs to: a tenant, a customer. Without it, the key belongs to the whole namespace. */
  readonly scope?: string | undefined;
  /**
   * The key of the work: text of 1 to 1,024 bytes, or a `Key`. Throws `key-missing` or `key-invalid` for
   * anything else.
   */
  readonly key: string | Key;
}

/** How the outcome of a call is stored: `T` is what the work returns, `Kept` what the record holds for it. */
export interface KeepOptions<T, Kept> {
  /** False for a value that is returned but not kept: the key is released, and the next call runs the work again. */
  readonly keepIf?: ((value: T) => boolean) | undefined;
  /** Makes a smaller value of one that is too large or cannot be encoded, so that a duplicate gets at least that. */
  readonly shorten?: ((value: T) => unknown) | undefined;
  /** Converts the value to what is stored, such as an instance of a class to plain data. Needs `decode`. */
  readonly encode?: ((value: T) => Kept) | undefined;
  /** Converts what `encode` returned back to the value, for every caller including the first. */
  readonly decode?: ((kept: Kept) => T) | undefined;
}

/** Gets the id of the record, and how long the call may wait. */
export type TakeSeat = (id: string, waitMs: number) => (() => void) | undefined;

/** `T` is what the work returns, and `Kept` what `encode` returns for it. A request without these types fits any work. */
// biome-ignore lint/suspicious/noExplicitAny: only any is a value of whatever type the work has, on both sides.
export interface RunRequest<T = any, Kept = any> extends Subject, PolicyOptions, KeepOptions<T, Kept> {
  /** What the request means, as a JSON value or bytes. The same key with another fingerprint is a `conflict`. */
  readonly fingerprint?: unknown;
  /** Called after each renewal of the claim, for example to tell a message broker that the work is still running. */
  readonly onRenewed?: (() => unknown) | undefined;
  /**
   * Asked before the call waits for another attempt: returns what to call when the wait is over, or undefined if the call must
   * not wait. Its result is then `pending`.
   */
  readonly takeSeat?: TakeSeat | undefined;
  /** Ends the caller's wait for the result. It never ends the work. */
  readonly signal?: AbortSignal | undefined;
  /** The platform's `waitUntil` for this request, if it has one: it gets the call, and every repeat of a completion or release. */
  readonly waitUntil?: WaitUntil | undefined;
}

/** The type of the value for the options of a request. TypeScript infers it from the work, not from the request. */
// biome-ignore lint/suspicious/noExplicitAny: a request of no particular work goes with any.
export type OfWork<T> = [T] extends [never] ? any : NoInfer<T>;

/** A checked request. */
export interface Call extends KeepOptions<unknown, unknown>, DoorRules {
  readonly identity: Identity;
  readonly fingerprint: string | undefined;
  readonly policy: Policy;
  readonly signal: AbortSignal | undefined;
  readonly onRenewed: (() => unknown) | undefined;
  readonly takeSeat?: TakeSeat | undefined;
  readonly waitUntil?: WaitUntil | undefined;
  /** The caller's own token for this call, which the caller may send again. If undefined, every round has a fresh one. */
  readonly token?: string | undefined;
  /** See `ClaimRequest`. */
  readonly mayBeLost?: boolean | undefined;
}

const anything: Check = () => {};

/** `toIdentity` checks the identity. */
const IDENTITY_CHECKS: Readonly<Record<string, Check>> = {
  operation: anything,
  domain: isDomain,
  scope: anything,
  key: anything,
};

const SUBJECT_CHECKS = { ...IDENTITY_CHECKS, fence: anything };

export const KEEP_CHECKS = {
  keepIf: isFunction,
  shorten: isFunction,
  encode: isFunction,
  decode: isFunction,
} as const;

export const REQUEST_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  ...IDENTITY_CHECKS,
  ...KEEP_CHECKS,
  fingerprint: anything,
  onRenewed: isFunction,
  takeSeat: isFunction,
  waitUntil: isFunction,
  signal(name, value) {
    if (value instanceof AbortSignal) return;
    throw new NevertwiceError("options-invalid", `${name} must be an AbortSignal.`);
  },
};

export function prepareCall(request: RunRequest, namespace: string, policy: Policy): Call {
  requireRequest(request);
  checkOptions(request, REQUEST_CHECKS);
  refuseReservedOperation(request);
  checkKeep(request);
  return {
    identity: identifySubject(request, namespace),
    fingerprint: request.fingerprint === undefined ? undefined : toFingerprint(request.fingerprint),
    policy: mergePolicy(policy, request),
    signal: request.signal,
    keepIf: request.keepIf,
    shorten: request.shorten,
    encode: request.encode,
    decode: request.decode,
    onRenewed: request.onRenewed,
    takeSeat: request.takeSeat,
    ...findDoorRules(request),
    waitUntil: request.waitUntil,
  };
}

/** Refuses options that contradict each other: `encode` without `decode`, or `encode` together with `shorten`. */
export function checkKeep({
  shorten,
  encode,
  decode,
}: { readonly [Name in keyof KeepOptions<unknown, unknown>]: unknown }): void {
  if ((encode === undefined) !== (decode === undefined)) {
    const [given, missing] = encode === undefined ? ["decode", "encode"] : ["encode", "decode"];
    throw new NevertwiceError(
      "options-invalid",
      `${given} is given without ${missing}: give both, since each reads what the other writes.`,
    );
  }
  if (encode !== undefined && shorten !== undefined)
    throw new NevertwiceError(
      "options-invalid",
      "encode and shorten are both given: give encode alone, and let it return something short enough.",
    );
}

/** Checks a subject and refuses unknown members: with a misspelt scope it would name another record. */
export function checkedSubject(subject: Subject, namespace: string): Identity {
  requireRequest(subject);
  checkOptions(subject, SUBJECT_CHECKS);
  return identifySubject(subject, namespace);
}

/** Throws `options-invalid` for an operation that is reserved for the library, unless the library itself made the request. */
export function refuseReservedOperation(subject: Subject): void {
  if (!isOurs(subject)) refuseReserved(fullOperation(subject), "operation", "options-invalid");
}

/** A domain has no colon, so that two pairs of domain and operation never join to the same text. */
export function isDomain(name: string, value: unknown): void {
  if (typeof value === "string" && value !== "" && !value.includes(":")) return;
  throw new NevertwiceError("options-invalid", `${name} must be a string without a colon, and not empty.`);
}

function fullOperation({ operation, domain }: Pick<Subject, "operation" | "domain">): string {
  return domain === undefined ? operation : `${domain}:${operation}`;
}

function identifySubject({ operation, domain, scope, key }: Subject, namespace: string): Identity {
  if (operation === undefined || operation === "") {
    throw new NevertwiceError(
      "options-invalid",
      'operation is missing: name what the key is for, e.g. "charge".',
    );
  }
  if (scope === "" || scope === null) {
    throw new NevertwiceError(
      "scope-missing",
      "scope is empty: give the tenant or principal, or leave scope out.",
    );
  }
  return toIdentity({
    namespace,
    scope: scope ?? "",
    operation: fullOperation({ operation, domain }),
    key: requiredKey(key),
  });
}

function requiredKey(key: unknown): string {
  const text = keyText(key);
  if (text === undefined || text === null || text === "") {
    throw new NevertwiceError(
      "key-missing",
      "the request has no key: give the caller's name for this piece of work.",
    );
  }
  return text as string;
}
