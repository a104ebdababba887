/**
 * Structured fields (RFC 9651, section 4.2): finds where each part of a field ends. Each `endOf…` function returns the
 * index after its part, or -1 if there is no such part at `at`. Strings hold latin1, as HTTP delivers them.
 */

const DOUBLE_QUOTE = 0x22;
const BACKSLASH = 0x5c;
const FIRST_PRINTABLE = 0x20;
const LAST_PRINTABLE = 0x7e;

/** The String that starts at `at`. It contains printable ASCII only, and `\"` and `\\` are its only escapes. */
export function endOfString(text: string, at: number): number {
  if (text.charCodeAt(at) !== DOUBLE_QUOTE) return -1;
  for (let i = at + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === DOUBLE_QUOTE) return i + 1;
    if (code < FIRST_PRINTABLE || code > LAST_PRINTABLE) return -1;
    if (code !== BACKSLASH) continue;
    const escaped = text.charCodeAt(++i);
    if (escaped !== DOUBLE_QUOTE && escaped !== BACKSLASH) return -1;
  }
  return -1;
}

/** The unescaped content of a String that `endOfString` has found. */
export function stringBetween(text: string, at: number, end: number): string {
  const inside = text.slice(at + 1, end - 1);
  return inside.includes("\\") ? inside.replace(/\\(.)/g, "$1") : inside;
}

/**
 * Every other type: Decimal or Integer, Token, Byte Sequence, Boolean, Date, Display String. A number with too many
 * digits matches only in part. The digit that remains is an error, since nothing that may follow an item starts with one.
 */
const BARE_ITEM =
  /-?(?:\d{1,12}\.\d{1,3}|\d{1,15})|[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*|:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:|\?[01]|@-?\d{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/y;
const KEY = /[a-z*][a-z0-9_.*-]*/y;

function endOfBareItem(text: string, at: number): number {
  if (text.charCodeAt(at) === DOUBLE_QUOTE) return endOfString(text, at);
  const end = endOfMatch(BARE_ITEM, text, at);
  return text[at] === "%" && end !== -1 && !isUtf8(text.slice(at + 2, end - 1)) ? -1 : end;
}

export function endOfParameters(text: string, at: number): number {
  let end = at;
  while (text[end] === ";") {
    end = endOfMatch(KEY, text, endOfSpaces(text, end + 1));
    if (end !== -1 && text[end] === "=") end = endOfBareItem(text, end + 1);
    if (end === -1) return -1;
  }
  return end;
}

export function endOfSpaces(text: string, at: number): number {
  let end = at;
  while (text[end] === " ") end++;
  return end;
}

/** The members of a Dictionary, each as the text of its item without parameters. Of two with the same name, the last counts. */
export function readDictionary(text: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>();
  let at = endOfSpaces(text, 0);
  while (at < text.length) {
    const nameEnd = endOfMatch(KEY, text, at);
    if (nameEnd === -1) return undefined;
    const hasValue = text[nameEnd] === "=";
    const valueAt = hasValue ? nameEnd + 1 : nameEnd;
    const valueEnd = hasValue ? endOfMember(text, valueAt) : valueAt;
    const end = valueEnd === -1 ? -1 : endOfParameters(text, valueEnd);
    if (end === -1) return undefined;
    // A name without a value means true.
    members.set(text.slice(at, nameEnd), hasValue ? text.slice(valueAt, valueEnd) : "?1");
    const comma = endOfBlanks(text, end);
    if (comma === text.length) break;
    at = endOfBlanks(text, comma + 1);
    if (text[comma] !== "," || at === text.length) return undefined;
  }
  return members;
}

/** A bare item, or an inner list of items. */
function endOfMember(text: string, at: number): number {
  if (text[at] !== "(") return endOfBareItem(text, at);
  let end = endOfSpaces(text, at + 1);
  while (text[end] !== ")") {
    const itemEnd = endOfBareItem(text, end);
    const afterItem = itemEnd === -1 ? -1 : endOfParameters(text, itemEnd);
    if (afterItem === -1 || (text[afterItem] !== " " && text[afterItem] !== ")")) return -1;
    end = endOfSpaces(text, afterItem);
  }
  return end + 1;
}

function endOfBlanks(text: string, at: number): number {
  let end = at;
  while (text[end] === " " || text[end] === "\t") end++;
  return end;
}

function endOfMatch(sticky: RegExp, text: string, at: number): number {
  sticky.lastIndex = at;
  return sticky.test(text) ? sticky.lastIndex : -1;
}

function isUtf8(percentEncoded: string): boolean {
  try {
    decodeURIComponent(percentEncoded);
    return true;
  } catch {
    return false;
  }
}
