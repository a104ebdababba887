/**
 * A function is named by a verb or by what it returns. A name that ends in `Of` is allowed where it reads best, so
 * their number is limited.
 */
import ts from "typescript";
import { allSourcesOf, walk } from "./source.js";

/** @typedef {import("./source.js").File} File */

/** Lower it when some of them are renamed. */
const MAX_OF_FUNCTIONS = 12;

/**
 * @param {readonly File[]} files
 * @param {number} [max]
 */
export function functionNameProblems(files, max = MAX_OF_FUNCTIONS) {
  const names = functionNames(files).filter((name) => name.endsWith("Of"));
  if (names.length <= max) return [];
  return [
    `${names.length} functions have a name that ends in Of; ${max} is the limit in scripts/tidy/function-names.js`,
  ];
}

/**
 * The name of every function that is declared or is the value of a constant. Methods have the names of their types.
 *
 * @param {readonly File[]} files
 */
export function functionNames(files) {
  /** @type {string[]} */
  const names = [];
  for (const file of allSourcesOf(files))
    walk(file, (node) => {
      const name = nameOfFunction(node);
      if (name !== undefined) names.push(name);
    });
  return names;
}

/** @param {ts.Node} node */
function nameOfFunction(node) {
  if (ts.isFunctionDeclaration(node)) return node.name?.text;
  if (!ts.isVariableDeclaration(node) || !ts.isIdentifier(node.name) || node.initializer === undefined)
    return undefined;
  return ts.isArrowFunction(node.initializer) || ts.isFunctionExpression(node.initializer)
    ? node.name.text
    : undefined;
}
