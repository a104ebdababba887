/**
 * A function has at most 70 lines of its own. Biome limits the lines of files; its rule for functions also counts the
 * lines of nested functions, so it would refuse every factory.
 */
import ts from "typescript";
import { allSourcesOf, lineAt, walk } from "./source.js";

const MAX_FUNCTION_LINES = 70;

/** @param {readonly import("./source.js").File[]} files */
export function sizeProblems(files) {
  return allSourcesOf(files).flatMap(functionProblems);
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
