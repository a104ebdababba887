/** Reads the titles of the tests, for the pages that say which test proves what. */
import { readdir, readFile } from "node:fs/promises";
import ts from "typescript";
import { ROOT } from "../command.js";

/** @typedef {{ path: string, text: string }} TestFile `path` is relative to the repository */

/** The files of tests of the packages. */
export async function readTestFiles() {
  const names = await readdir(`${ROOT}packages`, { recursive: true });
  const paths = names
    .map((name) => `packages/${name.replaceAll("\\", "/")}`)
    .filter((path) => /^packages\/[^/]+\/test\/.*\.test\.ts$/.test(path));
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(ROOT + path, "utf8") })));
}

/**
 * The titles of a file's tests. Of a title with a placeholder, the text in front of the placeholder.
 *
 * @param {string} text
 * @param {readonly string[]} [callers] the functions whose first argument is a title
 */
export function titlesOf(text, callers = ["test", "it"]) {
  /** @type {string[]} */
  const titles = [];
  /** @param {ts.Node} node */
  const into = (node) => {
    if (ts.isCallExpression(node) && callers.includes(rootOf(node.expression)))
      titles.push(titleOf(node.arguments[0]));
    ts.forEachChild(node, into);
  };
  into(ts.createSourceFile("test.ts", text, ts.ScriptTarget.ESNext));
  return titles;
}

/**
 * `test` of `test.each(rows)` and of `test.concurrent`.
 *
 * @param {ts.Expression} expression
 * @returns {string}
 */
function rootOf(expression) {
  if (ts.isIdentifier(expression)) return expression.text;
  if (ts.isPropertyAccessExpression(expression) || ts.isCallExpression(expression))
    return rootOf(expression.expression);
  return "";
}

/** @param {ts.Expression | undefined} argument */
function titleOf(argument) {
  if (argument === undefined) return "";
  if (ts.isStringLiteralLike(argument)) return argument.text;
  return ts.isTemplateExpression(argument) ? argument.head.text : "";
}
