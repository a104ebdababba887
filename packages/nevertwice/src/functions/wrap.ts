/** A guarded version of a function: its key comes from the arguments, everything else from the options. */

import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey, isKeyPart, KEY_PARTS, type Key, type KeyPart } from "../core/key.ts";
import { type Check, checkOptions, isFunction } from "../core/option-checks.ts";
import { checkTogether, POLICY_CHECKS, type PolicyOptions } from "../core/policy.ts";
import { checkKeep, isDomain, KEEP_CHECKS, type KeepOptions, type OfWork } from "../core/request.ts";
import { isOperation } from "../core/reserved.ts";

/** `0` is the first argument; `"1.orderId"` the member `orderId` of the second. */
export type KeyPath = number | `${number}` | `${number}.${string}`;

/** `T` is what the function returns, and `Kept` what `encode` returns for it. */
// biome-ignore lint/suspicious/noExplicitAny: only any is a value of whatever type the function has, on both sides.
export interface WrapOptions<Args extends readonly unknown[], T = any, Kept = any>
  extends PolicyOptions,
    KeepOptions<T, Kept> {
  /** What the key is for. It is required, since a rename or a minifier changes the name of a function. */
  readonly operation: string;
  /** An optional first part of the operation: domain "billing" and operation "charge" give "billing:charge". */
  readonly domain?: string | undefined;
  /** Returns the key for the arguments. Give this or `keyFrom`. */
  readonly key?: ((...args: Args) => string | Key) | undefined;
  /** Paths to the parts of the key in the arguments: primitives, dates or bytes. */
  readonly keyFrom?: readonly KeyPath[] | undefined;
  /**
   * Who the key belongs to, or a function of the arguments that returns it. An empty result fails with
   * `scope-missing`.
   */
  readonly scope?: string | ((...args: Args) => string) | undefined;
  /** Returns what the call means, as a JSON value or bytes. */
  readonly fingerprint?: ((...args: Args) => unknown) | undefined;
}

/** Throws `options-invalid` immediately for bad options. The guarded function always returns a promise. */
export function wrap<Args extends readonly unknown[], T, Kept = unknown>(
  guard: Pick<Engine, "run">,
  work: (...args: Args) => T | PromiseLike<T>,
  options: WrapOptions<Parameters<(...args: Args) => void>, OfWork<T>, Kept>,
): (...args: Args) => Promise<T> {
  isFunction("the function to wrap", work);
  if (options === undefined)
    throw new NevertwiceError(
      "options-invalid",
      "the options are missing: guard.wrap(work, { operation, key }).",
    );
  const toRequest = createRequestBuilder(options as WrapOptions<Args>);
  checkPositions(options.keyFrom, "the function", work);
  return async (...args) => guard.run(toRequest(args), async () => work(...args));
}

/** Checks the options once, and returns the function that builds the request of each call from its arguments. */
export function createRequestBuilder<Args extends readonly unknown[]>(options: WrapOptions<Args>) {
  checkWrapOptions(options);
  const { key, keyFrom, scope, fingerprint, ...rest } = options;
  return (args: Args) => ({
    ...rest,
    key: key === undefined ? keyFromPaths(keyFrom as readonly KeyPath[], args) : key(...args),
    scope: typeof scope === "function" ? given("scope-missing", "scope", scope(...args)) : scope,
    fingerprint:
      fingerprint === undefined
        ? undefined
        : given("fingerprint-invalid", "fingerprint", fingerprint(...args)),
  });
}

/** If the function for a part of the request returns nothing, that is a mistake, and not a request without that part. */
function given<T>(code: "scope-missing" | "fingerprint-invalid", name: string, value: T): T {
  if (value === undefined || value === null)
    throw new NevertwiceError(code, `the ${name} function returned ${value} for this call.`);
  return value;
}

function keyFromPaths(paths: readonly KeyPath[], args: readonly unknown[]): Key {
  return compositeKey(...paths.map((path) => keyPartAt(args, path)));
}

function keyPartAt(args: readonly unknown[], path: KeyPath): KeyPart {
  const value = argumentAt(args, path);
  if (isKeyPart(value)) return value;
  throw new NevertwiceError(
    "key-invalid",
    `the value at ${JSON.stringify(path)} cannot be part of a key; it must be ${KEY_PARTS}. For anything else, give a key function.`,
  );
}

export function argumentAt(args: readonly unknown[], path: KeyPath): unknown {
  const [position, ...members] = String(path).split(".");
  let value = args[Number(position)];
  for (const member of members) {
    // Getters of a class count. Members that every object has (constructor, __proto__) do not.
    const isMember = typeof value === "object" && value !== null && !(member in Object.prototype);
    value = isMember ? (value as Record<string, unknown>)[member] : undefined;
  }
  if (value === undefined || value === null) {
    throw new NevertwiceError(
      "key-missing",
      `the call has no value at ${JSON.stringify(path)}, which is part of its key.`,
    );
  }
  return value;
}

export const WRAP_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  ...KEEP_CHECKS,
  operation: isOperation,
  domain: isDomain,
  key: isFunction,
  keyFrom: isKeyPaths,
  scope: (name, value) => typeof value === "function" || void checkedPart(value, name, "options-invalid"),
  fingerprint: isFunction,
};

function checkWrapOptions(options: WrapOptions<never>): void {
  checkOptions(options, WRAP_CHECKS);
  if (options.operation === undefined)
    throw new NevertwiceError(
      "options-invalid",
      'operation is missing: name what the key is for, e.g. "charge".',
    );
  if (options.domain !== undefined)
    isOperation("operation with its domain", `${options.domain}:${options.operation}`);
  if ((options.key === undefined) === (options.keyFrom === undefined)) {
    throw new NevertwiceError(
      "options-invalid",
      "give exactly one of key (a function) and keyFrom (positions and paths).",
    );
  }
  checkTogether(options);
  checkKeep(options);
}

export function isKeyPaths(name: string, value: unknown): void {
  if (Array.isArray(value) && value.length > 0 && value.every(isKeyPath)) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must list argument positions and paths, e.g. [0, "1.orderId"].`,
  );
}

function isKeyPath(path: unknown): boolean {
  if (typeof path === "number") return Number.isSafeInteger(path) && path >= 0;
  return typeof path === "string" && /^\d+(\.[^.]+)*$/.test(path);
}

/** The parameter list of a function whose source has only names in it, or the single name in front of an arrow. */
const PLAIN_PARAMETERS = /^[\w$\s*#]*\(([\w$\s,]*)\)/;
const BARE_PARAMETER = /^(?:async\s+)?([\w$]+)\s*=>/;

/**
 * Throws `options-invalid` for a position after the last parameter of the function. A function is not checked if it may take
 * more arguments than its source shows: if it names no parameter, has a default, a rest parameter or a pattern, uses
 * `arguments`, or is bound or native.
 */
export function checkPositions(
  keyFrom: readonly KeyPath[] | undefined,
  what: string,
  work: (...args: never[]) => unknown,
): void {
  if (keyFrom === undefined) return;
  const text = Function.prototype.toString.call(work);
  const names = (PLAIN_PARAMETERS.exec(text) ?? BARE_PARAMETER.exec(text))?.[1];
  if (names === undefined || /\barguments\b|\[native code\]/.test(text)) return;
  const count = names.split(",").filter((name) => name.trim() !== "").length;
  const invalid = keyFrom.find((path) => Number.parseInt(String(path), 10) >= count);
  if (count === 0 || invalid === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    `keyFrom has ${JSON.stringify(invalid)}, but ${what} has ${count} parameter${count === 1 ? "" : "s"}; positions count from 0.`,
  );
}
