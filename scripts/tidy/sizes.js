/** A file past 300 lines has a second noun in it; a function past 70 has a second meaning. */
import ts from "typescript";
import { allSourcesOf, lineAt, walk } from "./source.js";

const MAX_FILE_LINES = 300;
const MAX_FUNCTION_LINES = 70;

/**
 * Files that may be longer, and why.
 *
 * @type {readonly { pattern: RegExp, reason: string }[]}
 */
const LONG_FILES = [{ pattern: /-(sql|lua)\.ts$/, reason: "statements are texts in another language" }];

/** @param {readonly import("./source.js").File[]} files */
export function sizeProblems(files) {
  return allSourcesOf(files).flatMap((file) => [...fileProblems(file), ...functionProblems(file)]);
}

/** @param {import("./source.js").File} file */
function fileProblems({ path, text }) {
  const lines = text.replace(/\n$/, "").split("\n").length;
  if (lines <= MAX_FILE_LINES || LONG_FILES.some(({ pattern }) => pattern.test(path))) return [];
  return [`${path}: ${lines} lines; ${MAX_FILE_LINES} is the limit, so look for its second noun`];
}

/** @param {import("./source.js").File} file */
function functionProblems(file) {
  /** @type {string[]} */
  const problems = [];
  walk(file, (node) => {
    if (!isFunctionWithBody(node)) return;
    const lines = ownLines(file, node);
    if (lines <= MAX_FUNCTION_LINES) return;
    const name = node.name?.getText() ?? "a function without a name";
    problems.push(
      `${file.path}:${lineAt(file, node.getStart())}: ${name} has ${lines} lines of its own; ${MAX_FUNCTION_LINES} is the limit`,
    );
  });
  return problems;
}

/**
 * The lines of a function that are not a nested function's: a factory that is a closure over several small functions is
 * as long as what it does itself.
 *
 * @param {import("./source.js").File} file
 * @param {ts.Node} fn
 */
function ownLines(file, fn) {
  let lines = lineAt(file, fn.getEnd()) - lineAt(file, fn.getStart()) + 1;
  /** @param {ts.Node} node */
  const into = (node) => {
    if (isFunctionWithBody(node)) lines -= lineAt(file, node.getEnd()) - lineAt(file, node.getStart());
    else ts.forEachChild(node, into);
  };
  ts.forEachChild(fn, into);
  return lines;
}

/**
 * @param {ts.Node} node
 * @returns {node is ts.FunctionLikeDeclaration}
 */
function isFunctionWithBody(node) {
  return ts.isFunctionLike(node) && "body" in node && node.body !== undefined;
}
