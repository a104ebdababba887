/** The options of `protect`: the request for the guard, where its key comes from, and what runs inside the guard. */
import type { Attempt } from "../../core/attempt.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { compositeKey, isKeyPart, KEY_PARTS, type Key, type KeyPart } from "../../core/key.ts";
import { type Check, checkOptions, isFunction } from "../../core/option-checks.ts";
import { REQUEST_CHECKS, type RunRequest } from "../../core/request.ts";
import { argumentAt, isKeyPaths, type KeyPath } from "../wrap.ts";
import type { DeadLetters } from "./dead-letter.ts";
import type { Invoke } from "./policy-run.ts";

/**
 * Anything that runs a function by its own rules: a policy of cockatiel, or several of them wrapped. `Execution` is what
 * it passes to the function, `Own` what it may return itself.
 */
export interface Resilience<Execution, Own> {
  /** Runs the function, perhaps several times, and settles with its last result. */
  execute(work: (execution?: Execution) => Promise<never>): PromiseLike<unknown>;
  /** The member in which cockatiel declares the type of a policy's own results. It is never read. */
  readonly _altReturn?: Own;
}

/** `execution` is what the policy passes, e.g. cockatiel's `{ signal, attempt }`; `attempt.signal` fires with its signal too. */
export type ProtectedWork<T, Execution> = (attempt: Attempt, execution: Execution) => T | PromiseLike<T>;

/** What runs inside the guard. */
export interface Protection<Execution, Own> {
  /**
   * Runs inside the guard: a policy of cockatiel, or anything with `execute`.
   * @default none: the work runs once
   */
  readonly policy?: Resilience<Execution, Own> | undefined;
  /** Receives a dead letter when the operation has failed, to be kept for `replay`. May be async; the call waits up to 5 seconds for it. */
  readonly deadLetters?: DeadLetters | undefined;
}

/**
 * Options of `protect` and `tryProtect`: the request, where its key comes from, and what runs inside the
 * guard.
 */
export interface ProtectOptions<Context extends object, Execution, Own, F>
  extends Omit<RunRequest, "key">,
    Protection<Execution, Own> {
  /** The name of a field of `context`, or several names, or a function that gets `context` and returns the key. Give this or `keyFrom`. */
  readonly key?:
    | FieldOf<Context>
    | readonly FieldOf<Context>[]
    | ((context: Context) => string | Key)
    | undefined;
  /** Paths to the parts of the key in `args`: primitives, dates or bytes. */
  readonly keyFrom?: readonly KeyPath[] | undefined;
  /**
   * What the call is about. `key` names its fields, the fallback gets it, and a dead letter holds a copy of
   * it.
   */
  readonly context?: Context | undefined;
  /** The arguments of the call. `keyFrom` names paths in them, and a dead letter holds a copy of them. */
  readonly args?: readonly unknown[] | undefined;
  /** Called after the work has failed; its result is returned instead. Its result is never stored. */
  readonly fallback?: ((error: unknown, context: Context) => F | PromiseLike<F>) | undefined;
}

/** The name of a field of the context. */
export type FieldOf<Context> = keyof Context & string;

type ProtectKeySource = Pick<
  ProtectOptions<Record<string, unknown>, never, never, never>,
  "key" | "keyFrom" | "context" | "args"
>;
type AnyOptions = Omit<RunRequest, "key"> & ProtectKeySource;

interface AnyProtection extends Pick<Protection<never, never>, "deadLetters"> {
  readonly policy?: { execute(invoke: Invoke): unknown };
  readonly fallback?: (error: unknown, ...more: unknown[]) => unknown;
}

const PROTECTION_CHECKS: Readonly<Record<string, Check>> = {
  policy(name, value) {
    if (typeof (value as { execute?: unknown } | null)?.execute === "function") return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be an object with execute(fn), such as a policy of cockatiel.`,
    );
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

const PROTECT_CHECKS: Readonly<Record<string, Check>> = { ...REQUEST_CHECKS, ...SOURCE_CHECKS };

/** Splits the options into those of `protect`, checked here, and the request, which the guard checks. */
export function splitOptions(options: object) {
  const { policy, fallback, deadLetters, rest } = splitProtection(options, PROTECT_CHECKS);
  const { key, keyFrom, context, args, ...request } = rest as AnyOptions;
  if ((key === undefined) === (keyFrom === undefined)) {
    throw new NevertwiceError(
      "options-invalid",
      "give exactly one of key (fields or a function of context) and keyFrom (paths into args).",
    );
  }
  const keyed = { ...request, key: readKey({ key, keyFrom, context, args }) };
  return { request: keyed, context, args, policy, fallback, deadLetters };
}

/** Splits off what runs inside the guard. Checks all options; `checks` are for the rest. */
export function splitProtection(options: object, checks: Readonly<Record<string, Check>>) {
  checkOptions(options, { ...checks, ...PROTECTION_CHECKS });
  const { policy, fallback, deadLetters, ...rest } = options as AnyProtection;
  return { policy, fallback, deadLetters, rest };
}

function readKey({ key, keyFrom, context, args }: ProtectKeySource): string | Key {
  if (typeof key === "function") return key(context as Record<string, unknown>);
  if (keyFrom !== undefined) {
    if (args === undefined)
      throw new NevertwiceError(
        "options-invalid",
        'keyFrom needs args, the arguments that the key is taken from: { keyFrom: ["0.id"], args: [order] }.',
      );
    return joinKeyParts(keyFrom.map((path) => ({ name: String(path), value: argumentAt(args, path) })));
  }
  if (context === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      "key names a field of context, but context is missing. To give the key itself, use a function: key: () => id.",
    );
  }
  const fields = typeof key === "string" ? [key] : (key as readonly string[]);
  return joinKeyParts(fields.map((name) => ({ name, value: readField(context, name) })));
}

function readField(context: Readonly<Record<string, unknown>>, name: string): unknown {
  // Members that every object has (constructor, __proto__) are not part of the context.
  const value = name in Object.prototype ? undefined : context[name];
  if (value === undefined || value === null)
    throw new NevertwiceError(
      "key-missing",
      `context has no ${JSON.stringify(name)}, which is part of the key.`,
    );
  return value;
}

function joinKeyParts(parts: readonly { readonly name: string; readonly value: unknown }[]): Key {
  const wrong = parts.find(({ value }) => !isKeyPart(value));
  if (wrong !== undefined) {
    throw new NevertwiceError(
      "key-invalid",
      `${JSON.stringify(wrong.name)} cannot be part of a key; it must be ${KEY_PARTS}.`,
    );
  }
  const key = compositeKey(...parts.map(({ value }) => value as KeyPart));
  if (key.text === "")
    throw new NevertwiceError(
      "key-missing",
      `${JSON.stringify(parts[0]?.name)}, which is the whole key, is empty.`,
    );
  return key;
}
