/**
 * Reads a JSON body if its JavaScript value represents it exactly. It does not if a member occurs twice, if a number would
 * be rounded, or if a string contains a lone surrogate: then two different bodies could have the same value.
 */
import { parseJson } from "../core/parse-json.ts";

/** Deeper values are compared by their bytes: a fingerprint has at most 128 levels, some of which are not the body's. */
const MAX_DEPTH = 100;
/** A decimal with at most this many digits survives the conversion to a double and back, unless it is subnormal. */
const SAFE_DIGITS = 15;
const SMALLEST_NORMAL = 2 ** -1022;
/** A number whose exponent has at most this many digits is never subnormal. */
const SAFE_EXPONENT_DIGITS = 2;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined if the bytes are not JSON in UTF-8, or if a JavaScript value cannot represent them exactly. */
export function readExactJson(bytes: Uint8Array): { readonly value: unknown } | undefined {
  const survey = surveyJson(bytes);
  if (survey === undefined) return undefined;
  let value: unknown;
  try {
    value = parseJson(decoder.decode(bytes));
  } catch {
    return undefined;
  }
  // Each colon is one member. If a member occurs twice, `JSON.parse` drops the first one, and the counts differ.
  if (countMembers(value) !== survey.colons) return undefined;
  return survey.hasSurrogateEscape && !isWellFormed(value) ? undefined : { value };
}

interface Survey {
  /** Outside strings. */
  readonly colons: number;
  readonly hasSurrogateEscape: boolean;
}

/**
 * One pass over the bytes: correct for valid JSON, harmless for other input. Undefined if the value is too deep or a
 * number would be rounded.
 */
function surveyJson(bytes: Uint8Array): Survey | undefined {
  let colons = 0;
  let depth = 0;
  let hasSurrogateEscape = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === 0x22 /* " */) {
      for (i++; i < bytes.length && bytes[i] !== 0x22; i++) {
        if (bytes[i] !== 0x5c /* \ */) continue;
        i++;
        if (bytes[i] === 0x75 /* u */ && ((bytes[i + 1] as number) | 0x20) === 0x64 /* d */)
          hasSurrogateEscape = true;
      }
    } else if (byte === 0x3a /* : */) colons++;
    else if (byte === 0x7b /* { */ || byte === 0x5b /* [ */) {
      if (++depth > MAX_DEPTH) return undefined;
    } else if (byte === 0x7d /* } */ || byte === 0x5d /* ] */) depth--;
    else if (isDigit(byte)) {
      const end = endOfExactNumber(bytes, i);
      if (end === -1) return undefined;
      i = end - 1;
    }
  }
  return { colons, hasSurrogateEscape };
}

/** The index after the number, or -1 if a double cannot represent it exactly. `at` is its first digit, after the sign. */
function endOfExactNumber(bytes: Uint8Array, at: number): number {
  let end = at;
  let digits = 0;
  for (; isDigit(bytes[end]) || bytes[end] === 0x2e /* . */; end++) if (bytes[end] !== 0x2e) digits++;
  let exponentDigits = 0;
  if (bytes[end] === 0x65 /* e */ || bytes[end] === 0x45 /* E */) {
    end++;
    if (bytes[end] === 0x2b /* + */ || bytes[end] === 0x2d /* - */) end++;
    for (; isDigit(bytes[end]); end++) exponentDigits++;
  }
  if (digits <= SAFE_DIGITS && exponentDigits <= SAFE_EXPONENT_DIGITS) return end;
  return isExact(decoder.decode(bytes.subarray(at, end)), digits) ? end : -1;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** Whether the double is written as the same decimal again. Then no other decimal has the same double. */
function isExact(decimal: string, digits: number): boolean {
  const double = Number(decimal);
  if (digits <= SAFE_DIGITS && double >= SMALLEST_NORMAL) return double !== Number.POSITIVE_INFINITY;
  const written = String(double);
  return written === decimal || plainDecimal(written) === plainDecimal(decimal);
}

/** The same text for equal decimals: the digits without outer zeros, and the power of ten of the last digit. */
function plainDecimal(decimal: string): string {
  const [mantissa = "", exponent = "0"] = decimal.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const digits = whole + fraction;
  let start = 0;
  let end = digits.length;
  while (digits[start] === "0") start++;
  while (end > start && digits[end - 1] === "0") end--;
  if (start === end) return "0";
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}

function countMembers(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let members = 0;
  if (Array.isArray(value)) {
    for (const element of value) members += countMembers(element);
    return members;
  }
  for (const name of Object.keys(value))
    members += 1 + countMembers((value as Record<string, unknown>)[name]);
  return members;
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([name, member]) => name.isWellFormed() && isWellFormed(member));
}
