/**
 * Words that make a sentence hard to read. A reader should know who does what: name the caller, the store or the
 * operator instead. Comments, messages, pages and titles of tests are checked.
 */
import ts from "typescript";
import { commentsOf, lineAt, walk } from "./source.js";

/** @typedef {import("./source.js").File} File */
/** @typedef {{ pattern: RegExp, instead: string }} Refused */

/** @type {readonly Refused[]} */
const REFUSED = [
  { pattern: /\bwho(?:m)?ever\b/i, instead: "name the subject: the caller, the operator, another process" },
  { pattern: /\bno more(?=\s*(?:[.,;:!?)]|$))/i, instead: 'write "no longer"' },
  { pattern: /\bof one's own\b/i, instead: 'write "your own" or "its own"' },
  { pattern: /\bnone of ours\b/i, instead: "say whose it is" },
  { pattern: /\bwhat is so\b/i, instead: "say what is true" },
];

const CODE = /\.(?:[cm]?[jt]s|tsx)$/;
/** Files that name the words they look for, and the copy of README.md that packing leaves behind. */
const EXEMPT = [
  "packages/nevertwice/README.md",
  "scripts/census.js",
  "scripts/test/census.test.js",
  "scripts/test/tidy.test.js",
];

/** @param {readonly File[]} files */
export function proseProblems(files) {
  return files.flatMap((file) => {
    const isPage = file.path.endsWith(".md");
    if (EXEMPT.includes(file.path) || !(isPage || CODE.test(file.path))) return [];
    // Most files have none of the words, and need not be parsed.
    if (!REFUSED.some(({ pattern }) => pattern.test(file.text) || /no\s+(?:\*\s+)?more/i.test(file.text)))
      return [];
    const passages = isPage ? paragraphsOf(file.text) : [...sentencesOf(file), ...commentsOf(file)];
    return passages.flatMap(({ text, line }) => {
      const words = text.replace(/\s+(?:\*\/?\s*|\/\/\s*)*/g, " ");
      return REFUSED.flatMap(({ pattern, instead }) => {
        const match = pattern.exec(words);
        return match === null ? [] : [`${file.path}:${line}: "${match[0]}"; ${instead}`];
      });
    });
  });
}

/**
 * The texts of string literals, templates and JSX.
 *
 * @param {File} file
 */
function sentencesOf(file) {
  /** @type {{ text: string, line: number }[]} */
  const found = [];
  walk(file, (node) => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
      found.push({ text: node.text, line: lineAt(file, node.getStart()) });
    else if (ts.isJsxText(node)) found.push({ text: node.text, line: lineAt(file, node.getStart()) });
  });
  return found;
}

/**
 * Paragraphs outside fenced blocks, each as one text, so that a phrase is found across a line break.
 *
 * @param {string} markdown
 */
function paragraphsOf(markdown) {
  /** @type {{ text: string, line: number }[]} */
  const found = [];
  let isFenced = false;
  let isOpen = false;
  for (const [index, text] of markdown.split("\n").entries()) {
    const isFence = /^\s*(```|~~~)/.test(text);
    if (isFence) isFenced = !isFenced;
    const isProse = !isFenced && !isFence && text.trim() !== "";
    if (isProse && isOpen) found[found.length - 1] = joined(found.at(-1), text);
    else if (isProse) found.push({ text, line: index + 1 });
    isOpen = isProse;
  }
  return found;
}

/**
 * @param {{ text: string, line: number } | undefined} paragraph
 * @param {string} text
 */
function joined(paragraph, text) {
  return { text: `${paragraph?.text ?? ""}\n${text}`, line: paragraph?.line ?? 0 };
}
