/** A guarded version of a function: the key comes from its arguments, the rest from the options. */

import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey, type Key, type KeyPart } from "../core/key.ts";
import {
  type Check,
  checkOptions,
  checkTogether,
  isFunction,
  POLICY_CHECKS,
  type PolicyOptions,
} from "../core/policy.ts";

/** `0` is the first argument; `"1.orderId"` the member `orderId` of the second. */
export type KeyPath = number | `${number}` | `${number}.${string}`;

export interface WrapOptions<Args extends readonly unknown[]> extends PolicyOptions {
  /** What the key is for. Always given: a function's name changes with a rename or a minifier. */
  readonly operation: string;
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
  return compositeKey(...paths.map((path) => argumentAt(args, path) as KeyPart));
}

function argumentAt(args: readonly unknown[], path: KeyPath): unknown {
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
  if ((options.key === undefined) === (options.keyFrom === undefined)) {
    throw new NevertwiceError(
      "options-invalid",
      "give exactly one of key (a function) and keyFrom (positions and paths).",
    );
  }
  checkTogether(options);
}

const isPart: Check = (name, value) => void checkedPart(value, name, "options-invalid");

function isKeyPaths(name: string, value: unknown): void {
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
