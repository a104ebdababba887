/**
 * A file has at most 300 lines of code, and a function 70 of its own. Biome's rules also count the comments of a file and
 * the lines of nested functions, so they would refuse types that are described member by member, and every factory.
 */
import ts from "typescript";
import { allSourcesOf, commentsOf, lineAt, walk } from "./source.js";

const MAX_FILE_LINES = 300;
const MAX_FUNCTION_LINES = 70;
/** They hold the text of another language. */
const TEXTS = /-(sql|lua)\.ts$/;

/** @param {readonly import("./source.js").File[]} files */
export function sizeProblems(files) {
  return allSourcesOf(files).flatMap((file) => [...fileProblems(file), ...functionProblems(file)]);
}

/** @param {import("./source.js").File} file */
function fileProblems(file) {
  if (TEXTS.test(file.path)) return [];
  const lines = countLines(file.text);
  // Most files are short with their comments, and need not be parsed.
  if (lines <= MAX_FILE_LINES) return [];
  const code = commentsOf(file).reduce((text, comment) => text.replace(comment.text, ""), file.text);
  const count = countLines(code);
  return count <= MAX_FILE_LINES
    ? []
    : [`${file.path}: ${count} lines without comments; ${MAX_FILE_LINES} is the limit`];
}

/** @param {string} text */
function countLines(text) {
  return text.split("\n").filter((line) => line.trim() !== "").length;
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
 * The lines of a function without those of its nested functions: a factory whose closures are small functions is only as
 * long as what it does itself.
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
