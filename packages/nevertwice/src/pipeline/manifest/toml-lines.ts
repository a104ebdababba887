/**
 * Finds the line of each value in a TOML text. The parser reports lines only for its own errors, so this walks the text
 * again and looks only at keys and lines. It assumes a well-formed text, since the parser has accepted it.
 */
import { parse } from "smol-toml";

/** Keys, and indexes in lists: `["edges", 0, "from"]`. */
export type Path = readonly (string | number)[];

/** The line of the value's key, or of the nearest table around it. 1 if neither is in the text. */
export type FindLine = (path: Path) => number;

export function tomlLines(text: string): FindLine {
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

type OnPath = (path: Path, line: number) => void;

/** The current position in the text. */
interface Cursor {
  readonly text: string;
  at: number;
  line: number;
}

const BLANK = /[ \t\r\n]|#[^\n]*/y;
const BARE_KEY = /[\w-]+/y;
const BASIC_STRING = /"(?:\\.|[^"\\])*"/y;
const LITERAL_STRING = /'[^']*'/y;
/** The text may end with up to five quotes, of which the last three are the delimiter. */
const LONG_BASIC_STRING = /"""(?:\\[\s\S]|[^\\])*?"{3,5}(?!")/y;
const LONG_LITERAL_STRING = /'''[\s\S]*?'{3,5}(?!')/y;
const OTHER_VALUE = /[^,\]}#\r\n]+/y;
const SCALARS = [LONG_BASIC_STRING, BASIC_STRING, LONG_LITERAL_STRING, LITERAL_STRING, OTHER_VALUE];

function walk(text: string, found: OnPath): void {
  const cursor: Cursor = { text, at: 0, line: 1 };
  /** The number of tables in each list of tables so far. */
  const counts = new Map<string, number>();
  let table: Path = [];
  for (skipBlank(cursor); cursor.at < text.length; skipBlank(cursor)) {
    if (text[cursor.at] === "[") table = header(cursor, counts, found);
    else pair(cursor, table, found);
  }
}

function header(cursor: Cursor, counts: Map<string, number>, found: OnPath): Path {
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

function pair(cursor: Cursor, table: Path, found: OnPath): void {
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

function value(cursor: Cursor, path: Path, found: OnPath): void {
  const first = cursor.text[cursor.at];
  if (first === "{") items(cursor, "}", () => pair(cursor, path, found));
  else if (first === "[")
    items(cursor, "]", (index) => {
      found([...path, index], cursor.line);
      value(cursor, [...path, index], found);
    });
  // The first match counts, so three quotes are tried before one.
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

/** Returns what the pattern matches at the current position, and moves past it. */
function take(cursor: Cursor, pattern: RegExp): string | undefined {
  pattern.lastIndex = cursor.at;
  const taken = pattern.exec(cursor.text)?.[0];
  if (taken === undefined) return undefined;
  cursor.at += taken.length;
  cursor.line += taken.split("\n").length - 1;
  return taken;
}
