/** Makes code small that keeps its lines: one line of output for each line of source, without the spaces between tokens. */
import { decode, encode } from "@jridgewell/sourcemap-codec";
import { parseSync, Visitor } from "rolldown/utils";

/** @typedef {{ readonly start: number, readonly end: number }} Span */
/** @typedef {readonly [source: number, line: number] | undefined} Place */

/**
 * The printer writes each property of an object on its own line, and each bracket that closes one. Lines that come from the
 * same line of source or from none, and lines of nothing but closing brackets, are joined: a stack trace names the same line
 * of source, and code and map are a tenth smaller.
 *
 * @param {string} name
 * @param {string} code as printed: every statement ends in a semicolon, and a comment has its own line
 * @param {string} map the text of its source map
 * @returns {{ code: string, map: string }}
 */
export function oneLineEach(name, code, map) {
  const { mappings, ...rest } = JSON.parse(map);
  const places = decode(mappings).map(placeOf);
  const texts = textsIn(name, code);
  /** @type {string[]} */
  const lines = [];
  /** @type {Place[]} */
  const kept = [];
  let at = 0;
  for (const [i, line] of code.split("\n").entries()) {
    const place = places[i];
    const isText = texts.some(({ start, end }) => start < at && at <= end);
    const isComment = line.startsWith("//");
    const short = isComment ? line : withoutSpaces(line, at, texts);
    const before = lines.at(-1);
    const belongs = CLOSING.test(short) || isSame(place, kept.at(-1));
    if (before !== undefined && !isText && !isComment && belongs)
      lines[lines.length - 1] = before + (needSpace(before.at(-1), short[0]) ? " " : "") + short;
    else {
      lines.push(short);
      kept.push(place);
    }
    at += line.length + 1;
  }
  const segments = kept.map((place) =>
    place === undefined ? [] : [/** @type {[number, number, number, number]} */ ([0, ...place, 0])],
  );
  return { code: lines.join("\n"), map: JSON.stringify({ ...rest, mappings: encode(segments) }) };
}

/** What no error is thrown at: the end of blocks, calls and lists. */
const CLOSING = /^[\])};,]+$/;

/**
 * @param {readonly (readonly number[])[]} segments of a line
 * @returns {Place}
 */
function placeOf(segments) {
  const [, source, line] = segments.find((segment) => segment.length > 1) ?? [];
  return source === undefined || line === undefined ? undefined : [source, line];
}

/**
 * @param {Place} place
 * @param {Place} other
 */
function isSame(place, other) {
  return place?.[0] === other?.[0] && place?.[1] === other?.[1];
}

/**
 * Where spaces and line breaks have a meaning: strings, regular expressions, and the texts of templates.
 *
 * @param {string} name
 * @param {string} code
 * @returns {readonly Span[]}
 */
function textsIn(name, code) {
  /** @type {Span[]} */
  const texts = [];
  const add = (/** @type {Span} */ { start, end }) => void texts.push({ start, end });
  new Visitor({ Literal: add, TemplateElement: add }).visit(parseSync(name, code).program);
  return texts.sort((a, b) => a.start - b.start);
}

/**
 * @param {string} line
 * @param {number} at where it begins in the code
 * @param {readonly Span[]} texts
 */
function withoutSpaces(line, at, texts) {
  return line.replace(/[ \t]+/g, (spaces, /** @type {number} */ column) => {
    const place = at + column;
    if (texts.some(({ start, end }) => start < place + spaces.length && place < end)) return spaces;
    return needSpace(line[column - 1], line[column + spaces.length]) ? " " : "";
  });
}

/**
 * Whether two tokens would become another one without a space between them.
 *
 * @param {string | undefined} last the end of the first one
 * @param {string | undefined} first the beginning of the second one
 */
function needSpace(last = "", first = "") {
  if (/[\w$]/.test(last) && /[\w$#\\]/.test(first)) return true;
  if (/\d/.test(last) && first === ".") return true;
  return last === first && /[-+/]/.test(last);
}
