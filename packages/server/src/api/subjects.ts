/**
 * Which key a request is about, and who owns it. The scope comes from the access token; a request can only narrow it.
 * The token of a claim is bound to that scope too.
 */
import { createHash } from "node:crypto";
import { compositeKey, type RecordView, type Subject } from "nevertwice";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import { LONGEST_DURATION_MS } from "../longest-duration.ts";
import type { JsonSchema, Parameter } from "./route.ts";

const MAX_CHARACTERS = 1_024;

export const partSchema = (description: string): JsonSchema => ({
  type: "string",
  minLength: 1,
  maxLength: MAX_CHARACTERS,
  description,
});

export const durationSchema = (least: number, description: string): JsonSchema => ({
  type: "integer",
  minimum: least,
  maximum: LONGEST_DURATION_MS,
  description: `${description} In milliseconds.`,
});

export const SCOPE_SCHEMA: JsonSchema = partSchema(
  "The owner of the key, within the scope of the access token.",
);

/** The names of effects whose derived keys a caller asks for. */
export const EFFECT_NAMES: JsonSchema = {
  type: "array",
  maxItems: 20,
  items: partSchema("The name of an effect."),
};

export const FENCE_SCHEMA: JsonSchema = {
  type: "integer",
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description:
    "The fence of the record as you saw it. The decision is refused if the record has changed since.",
};

/** The answer to an action on a record that returns nothing but its id. */
export const DONE_SCHEMA: JsonSchema = {
  type: "object",
  required: ["id"],
  properties: { id: { type: "string" } },
  additionalProperties: false,
};

export const ID_PARAMETER: Readonly<Record<string, Parameter>> = {
  id: {
    schema: { type: "string", pattern: "^[0-9a-f]{64}$" },
    description: "The id from the response to a claim or a list.",
  },
};

/** Injective: a token whose scope contains the separator never shares keys with a narrowed scope of another token. */
export function callerScope({ scope }: Caller, below?: string): string {
  return compositeKey(scope, ...(below === undefined ? [] : [below])).text;
}

/** The record with this id if it is in the caller's namespace, so that a caller cannot learn which other ids exist. */
export async function findRecord(
  context: Context,
  { namespace }: Caller,
  id: string,
): Promise<{ readonly record: RecordView; readonly subject: Subject } | undefined> {
  const record = await context.claims(namespace).read(id);
  const subject = record && recordSubject(record);
  if (record === undefined || subject === undefined) return undefined;
  // The hash covers the namespace: the same parts in another namespace have another hash.
  const isOurs = context.guard(namespace).about(subject).keyHash === record.keyHash;
  return isOurs ? { record, subject } : undefined;
}

/** Undefined for a forgotten record, which no longer has its key. */
function recordSubject({ operation, scope, key }: RecordView): Subject | undefined {
  if (operation === undefined || key === undefined) return undefined;
  return { operation, key, ...(scope !== undefined && scope !== "" && { scope }) };
}

export function isWithin(caller: Caller, scope: string | undefined): boolean {
  const own = callerScope(caller);
  return scope === own || (scope?.startsWith(`${own}|`) ?? false);
}

export const tokenSchema = (description: string): JsonSchema => ({
  type: "string",
  minLength: 16,
  maxLength: 200,
  description,
});

/**
 * The token that the store gets: a hash over the scope and the caller's token. A leaked token is useless without an
 * access token of the same scope, and someone who reads the store cannot use what is stored.
 */
export function tokenInStore({ namespace, scope }: Caller, token: string): string {
  return createHash("sha256")
    .update(JSON.stringify([namespace, scope, token]))
    .digest("base64url");
}
