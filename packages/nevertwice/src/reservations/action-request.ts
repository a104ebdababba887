/** The request of one action as a store receives it: its key, its parameters, and the digest that identifies a retry. */
import { hash, randomUUID } from "node:crypto";
import { lengthPrefixed, utf8Bytes } from "../core/bytes.ts";
import { MAX_PART_BYTES, toIdentity } from "../core/identity.ts";
import { reserved } from "../core/reserved.ts";
import type { Rejected } from "./answer.ts";
import { createTimeOrderedId } from "./time-ordered-id.ts";

export const ACTION_NAMES = [
  "placeHold",
  "confirm",
  "release",
  "expire",
  "giveBack",
  "erase",
  "declare",
  "adjust",
  "suspend",
  "resume",
  "close",
] as const;

export type ActionName = (typeof ACTION_NAMES)[number];

/** What the caller passed, without the key. No value is known to have the right type until the action is decided. */
export type Parameters = Readonly<Record<string, unknown>>;

export interface ActionRequest {
  /** Which action it is. */
  readonly action: ActionName;
  /** What the action was asked for, checked and without its key. */
  readonly parameters: Parameters;
  /** The digest of action and parameters: the same key with another one is `token-collision`. */
  readonly digest: string;
  /** The hashed identity of namespace, scope and key. */
  readonly keyId: string;
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** The owner of the key; empty if it has none. */
  readonly scope: string;
  /** The key. */
  readonly key: string;
  /** The id of a new commitment, drawn before anything is decided. */
  readonly newId: string;
  /** Random. What may have to be erased is in the journal only as a digest with this salt. */
  readonly salt: string;
  /** Who asks. Not part of the digest, so that another actor may retry. */
  readonly actor?: string | undefined;
  /** The actor may not do this: the transaction only keeps this refusal. */
  readonly denial?: Rejected | undefined;
  /** Set by the sweeper: if the action is rejected, the transaction fails and stores nothing under the key. */
  readonly isSweep?: true | undefined;
  /** Of `erase`: the id of the key that placed the commitment, if it is kept. */
  readonly erasesKey?: string | undefined;
}

export const MAX_KEY_BYTES = 256;
const MAX_SCOPE_BYTES = 1_024;
/** The operation of every reservation key, so that these keys never equal the keys of guarded work. */
export const { operation: OPERATION } = reserved("reservation");
/** The prefixes of our own keys. Callers cannot use such a key. */
const SWEEP_KEY_PREFIX = "nevertwice:sweep:";
const DENIED_KEY_PREFIX = "nevertwice:denied:";
const ERASURE_KEY_PREFIX = "nevertwice:erase:";

export interface RequestKey {
  readonly namespace: string;
  readonly scope?: string | undefined;
  readonly key: string;
}

export function createActionRequest(
  action: ActionName,
  { namespace, scope = "", key }: RequestKey,
  given: Parameters,
  actor?: string,
): ActionRequest {
  const parameters = toStorable(given);
  return {
    action,
    parameters,
    digest: digestParameters(action, parameters),
    keyId: toIdentity({ namespace, scope, operation: OPERATION, key }).id,
    namespace,
    scope,
    key,
    newId: createTimeOrderedId(),
    salt: randomUUID(),
    actor,
  };
}

/**
 * The sweeper's request to expire one hold. Its key is random, so an answer stored under the key can only come from this
 * request, never from another sweeper or from an earlier sweep.
 */
export function createSweepRequest(namespace: string, id: string): ActionRequest {
  const key = `${SWEEP_KEY_PREFIX}${randomUUID()}`;
  return { ...createActionRequest("expire", { key, namespace }, { id }), isSweep: true };
}

/** Our own request to erase the requester of one commitment, under a random key. */
export function createErasureRequest(namespace: string, id: string): ActionRequest {
  return createActionRequest("erase", { key: `${ERASURE_KEY_PREFIX}${randomUUID()}`, namespace }, { id });
}

/** Keeps a refusal of the actor under a random key. Its parameters also have the id of the key that was used. */
export function createDeniedRequest(request: ActionRequest, denial: Rejected): ActionRequest {
  const { action, namespace, parameters, keyId, actor } = request;
  const key = `${DENIED_KEY_PREFIX}${randomUUID()}`;
  return { ...createActionRequest(action, { key, namespace }, { ...parameters, keyId }, actor), denial };
}

/** Why the key or the scope is not valid. Such a request is rejected and not stored, since it has no key to store it under. */
export function findKeyProblem(key: unknown, scope: unknown): string | undefined {
  if (typeof key !== "string" || key === "") return "key must be a non-empty string";
  if (!key.isWellFormed()) return "key contains a lone surrogate; it must be well-formed Unicode";
  if (utf8Bytes(key) > MAX_KEY_BYTES) return `key has more than ${MAX_KEY_BYTES} bytes`;
  const prefix = [SWEEP_KEY_PREFIX, DENIED_KEY_PREFIX, ERASURE_KEY_PREFIX].find((own) => key.startsWith(own));
  if (prefix !== undefined) return `keys that begin with ${prefix} are reserved`;
  if (scope === undefined) return undefined;
  if (typeof scope !== "string" || scope === "" || !scope.isWellFormed())
    return "scope must be a non-empty string of well-formed Unicode";
  return utf8Bytes(scope) > MAX_SCOPE_BYTES ? "scope has more than 1,024 bytes" : undefined;
}

/**
 * The parameters in a form that every store can write and read back. Actions accept only numbers and short strings. Any
 * other value is replaced by a description of it, which the action then rejects like the value itself.
 */
export function toStorable(parameters: Parameters): Parameters {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    given.map(([name, value]) => [name, isStorable(value) ? value : describeValue(value)]),
  );
}

function isStorable(value: unknown): boolean {
  if (typeof value === "string") return utf8Bytes(value) <= MAX_PART_BYTES;
  return typeof value === "boolean" || value === null || Number.isFinite(value);
}

function describeValue(value: unknown): object {
  return typeof value === "object"
    ? { type: "object" }
    : { type: typeof value, sha256: hash("sha256", String(value), "hex") };
}

export const DIGEST_VERSION = "1";
const DIGEST_START = ["nevertwice/reservation", DIGEST_VERSION].map(lengthPrefixed).join("");

/** SHA-256 over the version, the action and the parameters sorted by name; each part is prefixed with its length. */
export function digestParameters(action: ActionName, parameters: Parameters): string {
  let text = DIGEST_START + lengthPrefixed(action);
  for (const name of Object.keys(parameters).sort()) {
    const value = parameters[name];
    if (value !== undefined) text += lengthPrefixed(name) + lengthPrefixed(typedText(value));
  }
  return `${DIGEST_VERSION}:${hash("sha256", text, "hex")}`;
}

/** The names of the parameters that differ between two requests. */
export function differences(a: Parameters, b: Parameters): string[] {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
  return names.filter((name) => typedText(a[name]) !== typedText(b[name]));
}

/** Keeps `1` and `"1"` apart, and also two different lone surrogates, which UTF-8 would encode as the same bytes. */
function typedText(value: unknown): string {
  if (typeof value === "string" && !value.isWellFormed()) return `ill-formed ${JSON.stringify(value)}`;
  return `${typeof value} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`;
}
