/**
 * Reads the key of a tool call, and removes it from the arguments for the fingerprint. The id of the JSON-RPC request is not a
 * key: a retry has another one.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { parsedJson, toFingerprint } from "../../core/fingerprint.ts";
import { type Key, keyText } from "../../core/key.ts";

/** The arguments of a tool's call. */
export type ToolArguments = Readonly<Record<string, unknown>>;

/** A member of the arguments, by its path (`"meta.idempotency-key"`), or of the request's `_meta`. */
export type KeyPlace =
  | {
      /** The name of the argument that holds the key. A dot leads into an object: `"meta.key"`. */
      readonly argument: string;
    }
  | {
      /** The name of the member of `_meta` that holds the key. */
      readonly meta: string;
    };

/** `"arguments"`: all arguments together are the key, so a call with the same arguments is a duplicate. */
export type ToolKey<Context> =
  | "arguments"
  | KeyPlace
  | ((args: ToolArguments, context: Context) => string | Key | undefined);

/** The names that existing tools use: in `_meta`, among the arguments, or in an argument called `meta`. */
export const KEY_NAMES = ["idempotency_key", "idempotency-key", "idempotencyKey"] as const;

const ANYWHERE: readonly KeyPlace[] = [
  ...KEY_NAMES.map((meta) => ({ meta })),
  ...KEY_NAMES.map((argument) => ({ argument })),
  ...KEY_NAMES.map((name) => ({ argument: `meta.${name}` })),
];

export function isToolKey(name: string, value: unknown): void {
  if (value === "arguments" || typeof value === "function") return;
  isKeyPlace(name, value);
}

export function isKeyPlace(name: string, value: unknown): void {
  const [[place, path] = [], ...more] = Object.entries(value ?? {});
  const isPath = typeof path === "string" && path.split(".").every((part) => part !== "");
  if (more.length === 0 && isPath && (place === "argument" || place === "meta")) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be the place of the key: { argument: "idempotency_key" } or { meta: "idempotency_key" }.`,
  );
}

/** Undefined if the call has no key. Throws `key-invalid` for an invalid key, and for two different keys. */
export function readKey<Context>(
  key: ToolKey<Context> | undefined,
  args: ToolArguments,
  meta: ToolArguments,
  context: Context,
): string | undefined {
  if (key === "arguments") return toFingerprint(parsedJson(args));
  if (typeof key === "function") return checkedKey(key(args, context));
  const [first, ...others] = keyPlaces(key).flatMap((place) => {
    const found = "meta" in place ? member(meta, [place.meta]) : member(args, place.argument.split("."));
    return found === undefined ? [] : [checkedKey(found)];
  });
  if (others.every((other) => other === first)) return first;
  throw new NevertwiceError(
    "key-invalid",
    "the call carries two different keys; send one, or the same twice.",
  );
}

/** The arguments without the key: where a caller puts the key does not change the meaning of the call. */
export function withoutKey<Context>(key: ToolKey<Context> | undefined, args: ToolArguments): ToolArguments {
  if (key === "arguments" || typeof key === "function") return args;
  return keyPlaces(key).reduce(
    (rest, place) => ("meta" in place ? rest : without(rest, place.argument.split("."))),
    args,
  );
}

function keyPlaces(key: KeyPlace | undefined): readonly KeyPlace[] {
  return key === undefined ? ANYWHERE : [key];
}

function checkedKey(found: unknown): string | undefined {
  const text = keyText(found);
  if (text === undefined || (typeof text === "string" && text !== "")) return text;
  throw new NevertwiceError("key-invalid", "the key of this call must be a non-empty string.");
}

function member(object: ToolArguments, path: readonly string[]): unknown {
  let value: unknown = object;
  for (const name of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as ToolArguments)[name];
  }
  return value;
}

function without(object: ToolArguments, [name, ...rest]: readonly string[]): ToolArguments {
  if (name === undefined || !Object.hasOwn(object, name)) return object;
  const { [name]: inner, ...others } = object;
  if (rest.length === 0) return others;
  if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return object;
  return { ...others, [name]: without(inner as ToolArguments, rest) };
}
