/** A guarded version of a function: the key comes from its arguments, the rest from the options. */

import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey, isExact, type Key, type KeyPart } from "../core/key.ts";
import {
  type Check,
  checkOptions,
  checkTogether,
  isFunction,
  POLICY_CHECKS,
  type PolicyOptions,
} from "../core/policy.ts";
import { isDomain } from "../core/request.ts";

/** `0` is the first argument; `"1.orderId"` the member `orderId` of the second. */
export type KeyPath = number | `${number}` | `${number}.${string}`;

export interface WrapOptions<Args extends readonly unknown[]> extends PolicyOptions {
  /** What the key is for. Always given: a function's name changes with a rename or a minifier. */
  readonly operation: string;
  /** The operation's first part, for those who keep their operations in families: "billing" and "charge" are "billing:charge". */
  readonly domain?: string | undefined;
  /** The key, from the arguments. Give this or `keyFrom`. */
  readonly key?: ((...args: Args) => string | Key) | undefined;
  /** The key, made of these arguments or members of them, which must be primitive. */
  readonly keyFrom?: readonly KeyPath[] | undefined;
  readonly scope?: string | ((...args: Args) => string) | undefined;
  /** What the call means, from the arguments: a JSON value or bytes. */
  readonly fingerprint?: ((...args: Args) => unknown) | undefined;
}

/** Fails with `options-invalid` at once on bad options. The guarded function's answer is always a promise. */
export function wrap<Args extends readonly unknown[], T>(
  guard: Pick<Engine, "run">,
  work: (...args: Args) => T | PromiseLike<T>,
  options: WrapOptions<Parameters<(...args: Args) => void>>,
): (...args: Args) => Promise<T> {
  isFunction("the function to wrap", work);
  const requestOf = requestFrom(options as WrapOptions<Args>);
  checkPositions(options.keyFrom, "the function", work);
  return async (...args) => guard.run(requestOf(args), async () => work(...args));
}

/** Checks the options once, and answers how each call's request is made of its arguments. */
export function requestFrom<Args extends readonly unknown[]>(options: WrapOptions<Args>) {
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

/** A function that was to give a part of the request and gave nothing is a mistake, not a request without it. */
function given<T>(code: "scope-missing" | "fingerprint-invalid", name: string, value: T): T {
  if (value === undefined || value === null)
    throw new NevertwiceError(code, `the ${name} function gave ${value} for this call.`);
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
    `the value at ${JSON.stringify(path)} cannot be part of a key; it must be well-formed text, a number within 2^53, a bigint or a boolean. A key function can make one of anything else.`,
  );
}

export function isKeyPart(value: unknown): value is KeyPart {
  switch (typeof value) {
    case "string":
      return value.isWellFormed();
    case "number":
      return isExact(value);
    default:
      return typeof value === "bigint" || typeof value === "boolean";
  }
}

export function argumentAt(args: readonly unknown[], path: KeyPath): unknown {
  const [position, ...members] = String(path).split(".");
  let value = args[Number(position)];
  for (const member of members) {
    // An entity's getters stand on its class; what every object has (constructor, __proto__) is nobody's key.
    const isMember = typeof value === "object" && value !== null && !(member in Object.prototype);
    value = isMember ? (value as Record<string, unknown>)[member] : undefined;
  }
  if (value === undefined || value === null) {
    throw new NevertwiceError(
      "key-missing",
      `the call has no value at ${JSON.stringify(path)}, which its key is made of.`,
    );
  }
  return value;
}

function checkWrapOptions(options: WrapOptions<never>): void {
  checkOptions(options, {
    ...POLICY_CHECKS,
    operation: isPart,
    domain: isDomain,
    key: isFunction,
    keyFrom: isKeyPaths,
    scope: (name, value) => typeof value === "function" || isPart(name, value),
    fingerprint: isFunction,
  });
  if (options.operation === undefined)
    throw new NevertwiceError(
      "options-invalid",
      'operation is missing: name what the key is for, e.g. "charge".',
    );
  if (options.domain !== undefined)
    isPart("operation with its domain", `${options.domain}:${options.operation}`);
  if ((options.key === undefined) === (options.keyFrom === undefined)) {
    throw new NevertwiceError(
      "options-invalid",
      "give exactly one of key (a function) and keyFrom (positions and paths).",
    );
  }
  checkTogether(options);
}

const isPart: Check = (name, value) => void checkedPart(value, name, "options-invalid");

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

/** A parameter list of names alone, as a function's own text begins with it; or the one name before an arrow. */
const PLAIN_PARAMETERS = /^[\w$\s*#]*\(([\w$\s,]*)\)/;
const BARE_PARAMETER = /^(?:async\s+)?([\w$]+)\s*=>/;

/**
 * Refuses a position past the function's last parameter. It judges only what is plain to see: a function that names no
 * parameter at all, or has a default, a rest, a pattern or `arguments`, or is bound or native, may be called with more
 * than it shows, and is let pass.
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
  const beyond = keyFrom.find((path) => Number.parseInt(String(path), 10) >= count);
  if (count === 0 || beyond === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    `keyFrom has ${JSON.stringify(beyond)}, but ${what} has ${count} parameter${count === 1 ? "" : "s"}; positions count from 0.`,
  );
}
