/**
 * Reads the value of the header that carries the key. In strict mode, it must be an RFC 9651 Item that is a String. By
 * default, a key without quotes is accepted too, and `"k"` and `k` are the same key. The caller checks the length.
 */
import { endOfParameters, endOfSpaces, endOfString, stringBetween } from "./structured-field.ts";

/** `problem` is a sentence for the client. It repeats nothing of what was sent. */
export type ParsedKey =
  | {
      /** The key without its quotes. */
      readonly key: string;
    }
  | {
      /** What is wrong with the header, as a sentence. */
      readonly problem: string;
    };

/** Which characters a key without quotes may have: visible ASCII without quotes and commas, or any but control characters. */
export type BareKeys = "visible" | "any";

const EMPTY = { problem: "the key is empty." };
const SEVERAL = { problem: "there is more than one key; send exactly one." };
const NOT_A_STRING = {
  problem:
    'the key is not in double quotes; send it as a String of RFC 9651, such as "8e03978e-40d5-43e8-bc93-6894a57f9324".',
};
const BAD_STRING = {
  problem:
    'the quoted key is malformed; use only printable ASCII between the double quotes, with \\" for a double quote and \\\\ for a backslash.',
};
const BAD_ENDING = { problem: "something that is not a parameter follows the quoted key." };
const BAD_BARE = {
  problem:
    "a key without double quotes may contain only visible ASCII, and no space, comma or double quote; send it in double quotes.",
};

const TAB = 0x09;
const SPACE = 0x20;
const DOUBLE_QUOTE = 0x22;
const COMMA = 0x2c;
const LAST_VISIBLE = 0x7e;
const DELETE = 0x7f;

export interface KeyHeaderRules {
  /** Accepts keys only in quotes, as RFC 9651 has strings. */
  readonly strict: boolean;
  /**
   * Which keys without quotes are accepted.
   * @default "visible"
   */
  readonly bareKeys?: BareKeys | undefined;
  /** The value is known to come from one header line, so a comma in it separates nothing. Counts with `bareKeys: "any"`. */
  readonly isOneLine?: boolean | undefined;
}

/** `value` is the header's lines joined by commas, in latin1, as Node and `Headers` give it. */
export function parseKeyHeader(
  value: string,
  { strict, bareKeys = "visible", isOneLine = false }: KeyHeaderRules,
): ParsedKey {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start), strict)) start++;
  while (start < end && isBlank(value.charCodeAt(end - 1), strict)) end--;
  if (start === end) return EMPTY;
  const text = start === 0 && end === value.length ? value : value.slice(start, end);
  // A value that starts with a quote is a String or invalid. It is never a bare key that contains a quote.
  if (text.charCodeAt(0) === DOUBLE_QUOTE) return quotedKey(text);
  return strict ? NOT_A_STRING : bareKey(text, bareKeys, isOneLine);
}

/** RFC 9651 allows only spaces around an Item. Around other header values, tabs are ignored too. */
function isBlank(code: number, strict: boolean): boolean {
  return code === SPACE || (code === TAB && !strict);
}

function quotedKey(text: string): ParsedKey {
  const end = endOfString(text, 0);
  if (end === -1) return BAD_STRING;
  if (end !== text.length) {
    const rest = endOfParameters(text, end);
    if (rest === -1) return BAD_ENDING;
    if (rest !== text.length) return text[endOfSpaces(text, rest)] === "," ? SEVERAL : BAD_ENDING;
  }
  const key = stringBetween(text, 0, end);
  return key === "" ? EMPTY : { key };
}

/**
 * A comma separates two keys, with or without a space after it: frameworks join two header lines by a comma, and two keys
 * must never count as one. Where lines were counted, and there is one, it may be a part of the key.
 */
function bareKey(text: string, allowed: BareKeys, isOneLine: boolean): ParsedKey {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (allowed === "any" && (isOneLine || code !== COMMA) && code >= SPACE && code !== DELETE) continue;
    if (code <= SPACE || code > LAST_VISIBLE || code === DOUBLE_QUOTE || code === COMMA)
      return text.includes(",") ? SEVERAL : BAD_BARE;
  }
  return { key: text };
}
