/** The identity of a record: namespace, scope, operation and key, hashed into one id. Different identities have different ids. */
import { sha256 } from "#platform";
import { lengthPrefixed } from "./bytes.ts";
import { type ErrorCode, type ErrorSubject, NevertwiceError } from "./errors.ts";
import type { Parts } from "./store.ts";

export const MAX_PART_BYTES = 1_024;

export interface Identity {
  readonly id: string;
  readonly parts: Parts;
}

export function toIdentity(parts: Parts): Identity {
  const { namespace, scope, operation, key } = parts;
  const label = labelFor(namespace, operation);
  const owner =
    scope === "" ? label.unscoped : label.start + prefixed(scope, "scope", "options-invalid") + label.end;
  return { id: sha256(owner + prefixed(key, "key", "key-invalid"), "hex"), parts };
}

/** The checked texts of a namespace and an operation, which stand before and after the scope. */
interface Label {
  readonly start: string;
  readonly end: string;
  /** Both, for a key without a scope. */
  readonly unscoped: string;
}

/**
 * The labels that were used lately, by namespace and operation. A guard uses few of them, again and again. An operation may
 * be the path of a request, so their number is limited.
 */
const labels = new Map<string, Map<string, Label>>();
const MAX_NAMESPACES = 20;
const MAX_OPERATIONS = 200;

function labelFor(namespace: string, operation: string): Label {
  let byOperation = labels.get(namespace);
  const known = byOperation?.get(operation);
  if (known !== undefined) return known;
  const start = prefixed(namespace, "namespace", "options-invalid");
  const end = prefixed(operation, "operation", "options-invalid");
  const label = { start, end, unscoped: `${start}0:${end}` };
  if (byOperation === undefined) {
    if (labels.size === MAX_NAMESPACES) labels.clear();
    byOperation = new Map();
    labels.set(namespace, byOperation);
  } else if (byOperation.size === MAX_OPERATIONS) byOperation.clear();
  byOperation.set(operation, label);
  return label;
}

/** The short hash of a key for logs and observers: enough to find the record, not enough to use the key. */
export function shortHash(id: string): string {
  return id.slice(0, 16);
}

/** The fields that an error has for an identity. They do not contain the key or the scope. */
export function toErrorSubject({ id, parts: { operation, scope } }: Identity): ErrorSubject {
  const scopeHash = scope === "" ? undefined : shortHash(sha256(scope, "hex"));
  return { operation, keyHash: shortHash(id), scopeHash };
}

/**
 * Derives the key to give to another system for one effect of this work. It is the same for every attempt, and different
 * for every name and identity. This format must never change: base64url SHA-256 over length-prefixed label, parts and name.
 */
export function deriveKey(parts: Parts, name: string): string {
  const text = [
    "nevertwice/derive/1",
    parts.namespace,
    parts.scope,
    parts.operation,
    parts.key,
    checkedPart(name, "name", "key-invalid"),
  ]
    .map(lengthPrefixed)
    .join("");
  return sha256(text, "base64url");
}

/** Throws `code` unless the part is a well-formed string of 1 to 1,024 bytes. */
export function checkedPart(part: unknown, name: string, code: ErrorCode): string {
  if (part === "") throw new NevertwiceError(code, `${name} is empty.`);
  prefixed(part, name, code);
  return part as string;
}

// identities-apart: a length in front of each part, so that no two lists of parts join to the same text.
function prefixed(part: unknown, name: string, code: ErrorCode): string {
  if (typeof part !== "string")
    throw new NevertwiceError(code, `${name} is ${describeType(part)}; it must be a string.`);
  const bytes = utf8Length(part);
  if (bytes < 0)
    throw new NevertwiceError(code, `${name} contains a lone surrogate; it must be well-formed Unicode.`);
  if (bytes > MAX_PART_BYTES) {
    throw new NevertwiceError(
      code,
      `${name} has ${bytes} bytes; ${MAX_PART_BYTES} is the limit. Hash long content first.`,
    );
  }
  return `${bytes}:${part}`;
}

/** The type of a value in words, for error messages. */
export function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** The length of the text in UTF-8, or -1 if it contains a lone surrogate. */
function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit < 0xd800 || unit > 0xdfff) bytes += 2;
    else {
      const next = text.charCodeAt(i + 1);
      if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return -1;
      bytes += 2;
      i++;
    }
  }
  return bytes;
}
