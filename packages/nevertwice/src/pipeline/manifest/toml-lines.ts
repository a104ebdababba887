/**
 * Where in a TOML text a value stands. The parser knows that only of its own errors, so the text is walked once more,
 * for keys and lines alone; it may be assumed to be well-formed, since the parser has taken it.
 */
import { parse } from "smol-toml";

/** Keys and, in lists, indexes: `["edges", 0, "from"]`. */
export type Path = readonly (string | number)[];

/** The line of the value's key, or of the nearest table around it that is written down; 1 for what is nowhere. */
export type LineOf = (path: Path) => number;

export function tomlLines(text: string): LineOf {
  const lines = new Map<string, number>();
  walk(text, (path, line) => {
    const name = JSON.stringify(path);
    if (!lines.has(name)) lines.set(name, line);
  });
  return (path) => {
    for (let length = path.length; length > 0; length--) {
      const line = lines.get(JSON.stringify(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  };
}

type Found = (path: Path, line: number) => void;

/** A place in the text, which moves on. */
interface Cursor {
  readonly text: string;
  at: number;
  line: number;
}

const BLANK = /[ \t\r\n]|#[^\n]*/y;
const BARE_KEY = /[\w-]+/y;
const BASIC_STRING = /"(?:\\.|[^"\\])*"/y;
const LITERAL_STRING = /'[^']*'/y;
/** The delimiter is the last three quotes of as many as five. */
const LONG_BASIC_STRING = /"""(?:\\[\s\S]|[^\\])*?"{3,5}(?!")/y;
const LONG_LITERAL_STRING = /'''[\s\S]*?'{3,5}(?!')/y;
const OTHER_VALUE = /[^,\]}#\r\n]+/y;
const SCALARS = [LONG_BASIC_STRING, BASIC_STRING, LONG_LITERAL_STRING, LITERAL_STRING, OTHER_VALUE];

function walk(text: string, found: Found): void {
  const cursor: Cursor = { text, at: 0, line: 1 };
  /** How many tables each list of tables has so far. */
  const counts = new Map<string, number>();
  let table: Path = [];
  for (skipBlank(cursor); cursor.at < text.length; skipBlank(cursor)) {
    if (text[cursor.at] === "[") table = header(cursor, counts, found);
    else pair(cursor, table, found);
  }
}

function header(cursor: Cursor, counts: Map<string, number>, found: Found): Path {
  const isList = cursor.text.startsWith("[[", cursor.at);
  const line = cursor.line;
  cursor.at += isList ? 2 : 1;
  const keys = dottedKey(cursor);
  skipBlank(cursor);
  cursor.at += isList ? 2 : 1;
  let path: Path = [];
  for (const [index, key] of keys.entries()) {
    path = [...path, key];
    found(path, line);
    const name = JSON.stringify(path);
    const isOpened = isList && index === keys.length - 1;
    const count = (counts.get(name) ?? 0) + (isOpened ? 1 : 0);
    if (count === 0) continue;
    counts.set(name, count);
    path = [...path, count - 1];
    found(path, line);
  }
  return path;
}

function pair(cursor: Cursor, table: Path, found: Found): void {
  const line = cursor.line;
  let path = table;
  for (const key of dottedKey(cursor)) {
    path = [...path, key];
    found(path, line);
  }
  skipBlank(cursor);
  cursor.at += 1;
  skipBlank(cursor);
  value(cursor, path, found);
}

function dottedKey(cursor: Cursor): string[] {
  const keys: string[] = [];
  do {
    if (keys.length > 0) cursor.at += 1;
    skipBlank(cursor);
    const bare = take(cursor, BARE_KEY);
    const quoted =
      bare === undefined ? (take(cursor, BASIC_STRING) ?? take(cursor, LITERAL_STRING)) : undefined;
    keys.push(bare ?? String(parse(`key = ${quoted}`).key));
    skipBlank(cursor);
  } while (cursor.text[cursor.at] === ".");
  return keys;
}

function value(cursor: Cursor, path: Path, found: Found): void {
  const first = cursor.text[cursor.at];
  if (first === "{") items(cursor, "}", () => pair(cursor, path, found));
  else if (first === "[")
    items(cursor, "]", (index) => {
      found([...path, index], cursor.line);
      value(cursor, [...path, index], found);
    });
  // The first that matches is it: three quotes also begin with one.
  else SCALARS.some((pattern) => take(cursor, pattern) !== undefined);
}

function items(cursor: Cursor, end: string, item: (index: number) => void): void {
  cursor.at += 1;
  for (let index = 0; ; index++) {
    skipBlank(cursor);
    if (cursor.text[cursor.at] === end || cursor.at >= cursor.text.length) break;
    item(index);
    skipBlank(cursor);
    if (cursor.text[cursor.at] === ",") cursor.at += 1;
  }
  cursor.at += 1;
}

function skipBlank(cursor: Cursor): void {
  while (take(cursor, BLANK) !== undefined);
}

/** What the pattern matches right here, and moves past it. */
function take(cursor: Cursor, pattern: RegExp): string | undefined {
  pattern.lastIndex = cursor.at;
  const taken = pattern.exec(cursor.text)?.[0];
  if (taken === undefined) return undefined;
  cursor.at += taken.length;
  cursor.line += taken.split("\n").length - 1;
  return taken;
}
