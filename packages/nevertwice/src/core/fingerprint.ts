/**
 * The fingerprint of a request: SHA-256 over the RFC 8785 canonical JSON of a value, or over the bytes that were given. It
 * carries a version, and fingerprints of different versions are never compared.
 */
import { sha256 } from "#platform";
import { canonicalJson, MAX_DEPTH } from "./canonical-json.ts";
import { NevertwiceError } from "./errors.ts";
import { isExact } from "./key.ts";

/** The digests of version 1 were in hex, a third longer. */
const VERSION = "2";

/** Throws `fingerprint-invalid` for a value that JSON cannot represent. Nothing is converted, and only members that are undefined are left out. */
export function toFingerprint(meaning: unknown): string {
  const bytes = meaning instanceof Uint8Array ? meaning : canonicalJson(meaning);
  return `${VERSION}:${sha256(bytes, "base64url")}`;
}

/**
 * Returns a value that was parsed from JSON. Throws `fingerprint-invalid` if it contains a number beyond 2^53: `JSON.parse`
 * rounds such numbers, so two different requests could have the same fingerprint.
 */
export function parsedJson<T>(value: T): T {
  checkNumbers(value, []);
  return value;
}

function checkNumbers(value: unknown, path: string[]): void {
  if (typeof value === "number" && !isExact(value)) throw rounded(path, value);
  // `canonicalJson` refuses deeper values.
  if (typeof value !== "object" || value === null || path.length === MAX_DEPTH) return;
  if (value instanceof Uint8Array) return;
  for (const name of Object.keys(value)) {
    path.push(name);
    checkNumbers((value as Record<string, unknown>)[name], path);
    path.pop();
  }
}

function rounded(path: readonly string[], value: number): NevertwiceError {
  return new NevertwiceError(
    "fingerprint-invalid",
    `${["the request", ...path].join(".")} is ${value}, which is beyond 2^53: the JSON parser may have rounded it. Send such a number as a string, or name the fields that make two requests the same.`,
  );
}

/** Whether two fingerprints prove that the requests differ. A missing one, or one of another version, proves nothing. */
export function fingerprintsDiffer(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined || a === b) return false;
  return digestVersion(a) === digestVersion(b);
}

function digestVersion(fingerprint: string): string {
  return fingerprint.slice(0, Math.max(0, fingerprint.indexOf(":")));
}
