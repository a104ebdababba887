/** What `protect` is asked for: the guard's own request, where its key comes from, and what stands inside the guard. */
import type { Attempt } from "../../core/attempt.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { compositeKey, type Key, type KeyPart } from "../../core/key.ts";
import { type Check, checkOptions, isFunction } from "../../core/policy.ts";
import type { RunRequest } from "../../core/request.ts";
import { argumentAt, isKeyPart, isKeyPaths, type KeyPath } from "../wrap.ts";
import type { Invoke } from "./course.ts";
import type { DeadLetters } from "./dead-letter.ts";

/**
 * Anything that runs a function by its own rules: a policy of cockatiel, or several of them wrapped. `Execution` is what
 * it passes to the function, `Own` what it may answer by itself.
 */
export interface Resilience<Execution, Own> {
  execute(work: (execution?: Execution) => Promise<never>): PromiseLike<unknown>;
  /** Where cockatiel's policies say the type of their own answers; nothing is ever read here. */
  readonly _altReturn?: Own;
}

/** `execution` is what the policy passes, e.g. cockatiel's `{ signal, attempt }`; `attempt.signal` fires with its signal too. */
export type ProtectedWork<T, Execution> = (attempt: Attempt, execution: Execution) => T | PromiseLike<T>;

/** What stands inside the guard. */
export interface Protection<Execution, Own> {
  readonly policy?: Resilience<Execution, Own> | undefined;
  /** Is given what failed in the end, as an entry to keep for `replay`. May be async, and is waited for, 5 seconds at most. */
  readonly deadLetters?: DeadLetters | undefined;
}

export interface ProtectOptions<Context extends object, Execution, Own, F>
  extends Omit<RunRequest, "key">,
    Protection<Execution, Own> {
  /** The name of a field of `context`, or several; or a function of it, whose answer is the key. Give this or `keyFrom`. */
  readonly key?:
    | FieldOf<Context>
    | readonly FieldOf<Context>[]
    | ((context: Context) => string | Key)
    | undefined;
  /** The key, made of these `args` or members of them, which must be primitive. */
  readonly keyFrom?: readonly KeyPath[] | undefined;
  readonly context?: Context | undefined;
  readonly args?: readonly unknown[] | undefined;
  /** Answers instead of work that failed in the end. Its answer is never kept. */
  readonly fallback?: ((error: unknown, context: Context) => F | PromiseLike<F>) | undefined;
}

export type FieldOf<Context> = keyof Context & string;

type KeySource = Pick<
  ProtectOptions<Record<string, unknown>, never, never, never>,
  "key" | "keyFrom" | "context" | "args"
>;
type AnyOptions = Omit<RunRequest, "key"> & KeySource;

interface AnyProtection extends Pick<Protection<never, never>, "deadLetters"> {
  readonly policy?: { execute(invoke: Invoke): unknown };
  readonly fallback?: (error: unknown, ...more: unknown[]) => unknown;
}

const PROTECTION_CHECKS: Readonly<Record<string, Check>> = {
  policy(name, value) {
    if (typeof (value as { execute?: unknown } | null)?.execute === "function") return;
    throw new NevertwiceError("options-invalid", `${name} must be an object with execute(fn).`);
  },
  fallback: isFunction,
  deadLetters: isFunction,
};

const SOURCE_CHECKS: Readonly<Record<string, Check>> = {
  key(name, value) {
    const names = Array.isArray(value) ? value : [value];
    const areNames = names.length > 0 && names.every((field) => typeof field === "string" && field !== "");
    if (typeof value === "function" || areNames) return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} must name a field of context, or several, or be a function of it.`,
    );
  },
  keyFrom: isKeyPaths,
  context(name, value) {
    if (typeof value === "object" && value !== null) return;
    throw new NevertwiceError("options-invalid", `${name} must be an object.`);
  },
  args(name, value) {
    if (Array.isArray(value)) return;
    throw new NevertwiceError("options-invalid", `${name} must be a list.`);
  },
};

/** `protect`'s own part of its options, checked, and the request for the guard, which checks it. */
export function splitOptions(options: object) {
  const { policy, fallback, deadLetters, rest } = splitProtection(options);
  const { key, keyFrom, context, args, ...request } = rest as AnyOptions;
  checkOptions({ key, keyFrom, context, args }, SOURCE_CHECKS);
  if ((key === undefined) === (keyFrom === undefined)) {
    throw new NevertwiceError(
      "options-invalid",
      "give exactly one of key (fields or a function of context) and keyFrom (paths into args).",
    );
  }
  const keyed = { ...request, key: keyOf({ key, keyFrom, context, args }) };
  return { request: keyed, context, args, policy, fallback, deadLetters };
}

/** What stands inside the guard, checked, and the rest of the options. */
export function splitProtection(options: object) {
  if (typeof options !== "object" || options === null) checkOptions(options, {});
  const { policy, fallback, deadLetters, ...rest } = options as AnyProtection;
  checkOptions({ policy, fallback, deadLetters }, PROTECTION_CHECKS);
  return { policy, fallback, deadLetters, rest };
}

function keyOf({ key, keyFrom, context, args }: KeySource): string | Key {
  if (typeof key === "function") return key(context as Record<string, unknown>);
  if (keyFrom !== undefined) {
    if (args === undefined)
      throw new NevertwiceError("options-invalid", "keyFrom needs args, the arguments it is taken from.");
    return keyOfParts(keyFrom.map((path) => ({ name: String(path), value: argumentAt(args, path) })));
  }
  if (context === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      "key names a field of context, and there is no context. For a key as it is, give a function: key: () => id.",
    );
  }
  const fields = typeof key === "string" ? [key] : (key as readonly string[]);
  return keyOfParts(fields.map((name) => ({ name, value: fieldOf(context, name) })));
}

function fieldOf(context: Readonly<Record<string, unknown>>, name: string): unknown {
  // What every object has (constructor, __proto__) is nobody's key.
  const value = name in Object.prototype ? undefined : context[name];
  if (value === undefined || value === null)
    throw new NevertwiceError(
      "key-missing",
      `context has no ${JSON.stringify(name)}, which the key is made of.`,
    );
  return value;
}

function keyOfParts(parts: readonly { readonly name: string; readonly value: unknown }[]): Key {
  const wrong = parts.find(({ value }) => !isKeyPart(value));
  if (wrong !== undefined) {
    throw new NevertwiceError(
      "key-invalid",
      `${JSON.stringify(wrong.name)} cannot be part of a key; it must be well-formed text, a number within 2^53, a bigint or a boolean.`,
    );
  }
  const key = compositeKey(...parts.map(({ value }) => value as KeyPart));
  if (key.text === "")
    throw new NevertwiceError(
      "key-missing",
      `${JSON.stringify(parts[0]?.name)}, which the key is made of, is empty.`,
    );
  return key;
}
