/** Who a record belongs to: namespace, scope, operation and key, hashed injectively into one id. */
import { hash } from "node:crypto";
import { lengthPrefixed } from "./bytes.ts";
import { type ErrorCode, NevertwiceError } from "./errors.ts";
import type { Parts } from "./store.ts";

export const MAX_PART_BYTES = 1_024;

export interface Identity {
  readonly id: string;
  readonly parts: Parts;
}

export function identityOf(parts: Parts): Identity {
  const text =
    prefixed(parts.namespace, "namespace", "options-invalid") +
    prefixed(parts.scope, "scope", "options-invalid") +
    prefixed(parts.operation, "operation", "options-invalid") +
    prefixed(parts.key, "key", "key-invalid");
  return { id: hash("sha256", text, "hex"), parts };
}

/** What logs and observers see of a key: enough to find it again, nothing to replay it with. */
export function shortHash(id: string): string {
  return id.slice(0, 16);
}

/**
 * The key to hand to another system for one effect of this work: the same for every attempt, different for every name
 * and identity. Frozen: base64url SHA-256 over the length-prefixed label, parts and name.
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
  return hash("sha256", text, "base64url");
}

/** Refuses what is no well-formed string of 1 to 1,024 bytes. */
export function checkedPart(part: unknown, name: string, code: ErrorCode): string {
  if (part === "") throw new NevertwiceError(code, `${name} is empty.`);
  prefixed(part, name, code);
  return part as string;
}

// identities-apart: a length before each part, so no two lists of parts make the same text.
function prefixed(part: unknown, name: string, code: ErrorCode): string {
  if (typeof part !== "string")
    throw new NevertwiceError(code, `${name} is ${kindOf(part)}; it must be a string.`);
  const bytes = utf8Length(part);
  if (bytes < 0)
    throw new NevertwiceError(code, `${name} has a lone surrogate; it must be well-formed text.`);
  if (bytes > MAX_PART_BYTES) {
    throw new NevertwiceError(
      code,
      `${name} has ${bytes} bytes; ${MAX_PART_BYTES} is the limit. Hash long content first.`,
    );
  }
  return `${bytes}:${part}`;
}

/** What a value is, in words, for messages that say what it should have been. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Bytes of the text in UTF-8, or -1 if a surrogate stands alone. */
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
