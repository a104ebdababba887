/** What a caller asks of a guard, checked and computed once: work that changes its input afterwards changes nothing. */
import { NevertwiceError } from "./errors.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { type Identity, identityOf } from "./identity.ts";
import { type Key, keyText } from "./key.ts";
import {
  type Check,
  checkOptions,
  isFunction,
  mergePolicy,
  POLICY_CHECKS,
  type Policy,
  type PolicyOptions,
} from "./policy.ts";

/** Names one piece of work. */
export interface Subject {
  /** What the key is for: a label of your own, the same wherever the same work is guarded. */
  readonly operation: string;
  /** The operation's first part, for those who keep their operations in families: "billing" and "charge" are "billing:charge". */
  readonly domain?: string | undefined;
  /** Who the key belongs to: a tenant, a customer. Without it, the key belongs to the whole namespace. */
  readonly scope?: string | undefined;
  readonly key: string | Key;
}

export interface RunRequest extends Subject, PolicyOptions {
  /** What the request means, as a JSON value or its bytes: the same key with another meaning is a `conflict`. */
  readonly fingerprint?: unknown;
  /** What to keep of a value that is too large to be kept or cannot be encoded, so that a duplicate gets at least that. */
  readonly shorten?: ((value: never) => unknown) | undefined;
  /** Told after each renewal of the claim, so that whoever delivered the work can be told that it is still being done. */
  readonly onRenewed?: (() => unknown) | undefined;
  /** The caller's own: it ends the wait for an answer, never the work. */
  readonly signal?: AbortSignal | undefined;
}

/** A checked request. */
export interface Call {
  readonly identity: Identity;
  readonly fingerprint: string | undefined;
  readonly policy: Policy;
  readonly signal: AbortSignal | undefined;
  readonly shorten: ((value: never) => unknown) | undefined;
  readonly onRenewed: (() => unknown) | undefined;
}

const anything: Check = () => {};

/** The identity is checked where it is made. */
const IDENTITY_CHECKS: Readonly<Record<string, Check>> = {
  operation: anything,
  domain: isDomain,
  scope: anything,
  key: anything,
};

const SUBJECT_CHECKS = { ...IDENTITY_CHECKS, fence: anything };

const REQUEST_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  ...IDENTITY_CHECKS,
  fingerprint: anything,
  shorten: isFunction,
  onRenewed: isFunction,
  signal(name, value) {
    if (value instanceof AbortSignal) return;
    throw new NevertwiceError("options-invalid", `${name} must be an AbortSignal.`);
  },
};

export function prepareCall(request: RunRequest, namespace: string, policy: Policy): Call {
  checkOptions(request, REQUEST_CHECKS);
  return {
    identity: identifySubject(request, namespace),
    fingerprint: request.fingerprint === undefined ? undefined : fingerprintOf(request.fingerprint),
    policy: mergePolicy(policy, request),
    signal: request.signal,
    shorten: request.shorten,
    onRenewed: request.onRenewed,
  };
}

/** What names one record, and nothing else: a misspelt scope would name another. */
export function checkedSubject(subject: Subject, namespace: string): Identity {
  checkOptions(subject, SUBJECT_CHECKS);
  return identifySubject(subject, namespace);
}

/** No part of a family's name may look like the seam: so two pairs of domain and operation never make one text. */
export function isDomain(name: string, value: unknown): void {
  if (typeof value === "string" && value !== "" && !value.includes(":")) return;
  throw new NevertwiceError("options-invalid", `${name} must be text without a colon, and not empty.`);
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
  return identityOf({
    namespace,
    scope: scope ?? "",
    operation: domain === undefined ? operation : `${domain}:${operation}`,
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
