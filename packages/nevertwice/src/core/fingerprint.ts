/**
 * The fingerprint of a request: SHA-256 over the RFC 8785 canonical JSON of a value, or over the bytes that were given. It
 * carries a version, and fingerprints of different versions are never compared.
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "./errors.ts";
import { describeType } from "./identity.ts";
import { isExact } from "./key.ts";

const VERSION = "1";
const MAX_DEPTH = 128;
/** A small value that contains the same part many times can be very large as text. */
const MAX_LENGTH = 64 * 1_048_576;

/** Throws `fingerprint-invalid` for a value that JSON cannot represent. Nothing is left out or converted. */
export function toFingerprint(meaning: unknown): string {
  const bytes = meaning instanceof Uint8Array ? meaning : canonicalJson(meaning);
  return `${VERSION}:${hash("sha256", bytes, "hex")}`;
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

/** RFC 8785: members sorted by UTF-16 code units, numbers and strings as ECMAScript writes them. */
export function canonicalJson(value: unknown): string {
  return canonical(value, []);
}

/** Characters that JSON must escape, and surrogates. Any other text only needs quotes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what JSON escapes.
const NOT_PLAIN_TEXT = /["\\\u0000-\u001f\ud800-\udfff]/;

/** `path` leads to `value`. It is a stack that becomes text only in an error. */
function canonical(value: unknown, path: (string | number)[]): string {
  switch (typeof value) {
    case "string":
      return canonicalText(value, path, "a string with");
    case "number":
      if (!Number.isFinite(value)) throw invalid(path, String(value));
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      if (path.length === MAX_DEPTH)
        throw invalid(path, `nested deeper than ${MAX_DEPTH} levels (or circular)`);
      return Array.isArray(value) ? canonicalArray(value, path) : canonicalObject(value, path);
    default:
      throw invalid(path, describeType(value));
  }
}

function canonicalText(text: string, path: (string | number)[], what: string): string {
  if (!NOT_PLAIN_TEXT.test(text)) return `"${text}"`;
  if (!text.isWellFormed()) throw invalid(path, `${what} a lone surrogate`);
  return JSON.stringify(text);
}

function canonicalArray(array: readonly unknown[], path: (string | number)[]): string {
  if (Object.keys(array).length > array.length) throw invalid(path, "an array with a named member");
  let text = "[";
  for (let i = 0; i < array.length; i++) {
    if (i > 0) text += ",";
    path.push(i);
    text += canonical(array[i], path);
    if (text.length > MAX_LENGTH) throw invalid(path, `more than ${MAX_LENGTH} characters as JSON`);
    path.pop();
  }
  return `${text}]`;
}

function canonicalObject(object: object, path: (string | number)[]): string {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    throw invalid(path, `an instance of ${object.constructor?.name || "a class"}`);
  }
  if (Object.getOwnPropertySymbols(object).length > 0)
    throw invalid(path, "an object with a symbol as a member name");
  let text = "{";
  for (const name of sorted(Object.keys(object))) {
    if (text.length > 1) text += ",";
    text += canonicalText(name, path, "an object whose member name has");
    path.push(name);
    text += `:${canonical((object as Record<string, unknown>)[name], path)}`;
    path.pop();
  }
  return `${text}}`;
}

/** Up to this many names an insertion sort in place is faster than `sort`, which copies them first. */
const FEW_NAMES = 32;

/** Sorts by UTF-16 code units. */
function sorted(names: string[]): string[] {
  if (names.length > FEW_NAMES) return names.sort();
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string;
    let at = i;
    for (; at > 0 && (names[at - 1] as string) > name; at--) names[at] = names[at - 1] as string;
    names[at] = name;
  }
  return names;
}

function invalid(path: readonly (string | number)[], found: string): NevertwiceError {
  return new NevertwiceError(
    "fingerprint-invalid",
    `${["fingerprint", ...path].join(".")} is ${found}, which JSON cannot represent. Give plain JSON values (a date as its ISO string, a bigint as a string), or the request's bytes as a Uint8Array.`,
  );
}
