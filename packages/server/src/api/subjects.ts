/** Whose a key is, and what requests say of it. The scope comes from the credential; a request narrows it, no more. */
import { compositeKey, type RecordView, type Subject } from "nevertwice";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import type { JsonSchema, Parameter } from "./route.ts";

const MOST_CHARACTERS = 1_024;
const MOST_MS = 3_155_760_000_000;

export const partSchema = (description: string): JsonSchema => ({
  type: "string",
  minLength: 1,
  maxLength: MOST_CHARACTERS,
  description,
});

export const durationSchema = (least: number, description: string): JsonSchema => ({
  type: "integer",
  minimum: least,
  maximum: MOST_MS,
  description: `${description} In milliseconds.`,
});

export const SCOPE_SCHEMA: JsonSchema = partSchema("Whose the key is, below what the access token says.");

export const FENCE_SCHEMA: JsonSchema = {
  type: "integer",
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "The fence of the record as it was seen: a decision about what has moved on since is refused.",
};

/** The answer of what is done to a record, and has nothing else to tell. */
export const DONE_SCHEMA: JsonSchema = {
  type: "object",
  required: ["id"],
  properties: { id: { type: "string" } },
  additionalProperties: false,
};

export const ID_PARAMETER: Readonly<Record<string, Parameter>> = {
  id: {
    schema: { type: "string", pattern: "^[0-9a-f]{64}$" },
    description: "The id that a claim or a list was answered with.",
  },
};

/** Injective, also between a token whose scope has a separator in it and a scope below another token's. */
export function scopeOf({ scope }: Caller, below?: string): string {
  return compositeKey(scope, ...(below === undefined ? [] : [below])).text;
}

/** The record with this id, if it is of the caller's namespace; so nobody learns whether another's exists. */
export async function recordIn(
  context: Context,
  { namespace }: Caller,
  id: string,
): Promise<{ readonly record: RecordView; readonly subject: Subject } | undefined> {
  const record = await context.claims(namespace).read(id);
  const subject = record && subjectOf(record);
  if (record === undefined || subject === undefined) return undefined;
  // The id is a hash of the namespace too: the same parts in this one have another.
  const isOurs = context.guard(namespace).about(subject).keyHash === record.keyHash;
  return isOurs ? { record, subject } : undefined;
}

/** Undefined for a record that was forgotten: nobody can tell what it was. */
function subjectOf({ operation, scope, key }: RecordView): Subject | undefined {
  if (operation === undefined || key === undefined) return undefined;
  return { operation, key, ...(scope !== undefined && scope !== "" && { scope }) };
}

export function isWithin(caller: Caller, scope: string | undefined): boolean {
  const own = scopeOf(caller);
  return scope === own || (scope?.startsWith(`${own}|`) ?? false);
}
