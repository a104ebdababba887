/**
 * Readers copy how examples catch errors. Some errors mean that the caller should retry later, such as an outage or another
 * running attempt. So an example must look at each error that it catches, and throw those that it does not handle.
 */
import ts from "typescript";
import { lineAt, walk } from "./source.js";

/** @typedef {import("./source.js").File} File */

/** Which argument of a promise's method handles its error. */
const HANDLED_AT = new Map([
  ["catch", 0],
  ["then", 1],
]);

const FENCED = /^```(ts|typescript|js|javascript)\b[^\n]*\n([\s\S]*?)^```$/gm;

/** @param {readonly File[]} files */
export function catchProblems(files) {
  return files.flatMap((file) => {
    if (/^examples\/.*\.[jt]s$/.test(file.path)) return problemsIn(file, file.path, 0);
    if (!/^(README|docs\/[^/]+)\.md$/.test(file.path)) return [];
    return [...file.text.matchAll(FENCED)].flatMap(({ 2: text = "", index }) => {
      const linesBefore = file.text.slice(0, index).split("\n").length;
      return problemsIn({ path: `${file.path}.ts`, text }, file.path, linesBefore);
    });
  });
}

/**
 * @param {File} file
 * @param {string} path
 * @param {number} linesBefore
 */
function problemsIn(file, path, linesBefore) {
  /** @type {string[]} */
  const problems = [];
  walk(file, (node) => {
    const caught = caughtBy(node);
    const problem = caught && problemOf(caught);
    if (problem) problems.push(`${path}:${linesBefore + lineAt(file, node.getStart())}: ${problem}`);
  });
  return problems;
}

/** @typedef {{ name: ts.BindingName | undefined, body: ts.Node }} Caught */

/**
 * The handler of an error: `catch (error) { … }`, `.catch((error) => …)` or the second function of `.then`.
 *
 * @param {ts.Node} node
 * @returns {Caught | undefined}
 */
function caughtBy(node) {
  if (ts.isCatchClause(node)) return { name: node.variableDeclaration?.name, body: node.block };
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return undefined;
  const place = HANDLED_AT.get(node.expression.name.text);
  const handler = place === undefined ? undefined : node.arguments[place];
  if (handler === undefined || !(ts.isArrowFunction(handler) || ts.isFunctionExpression(handler)))
    return undefined;
  return { name: handler.parameters[0]?.name, body: handler.body };
}

/** @param {Caught} caught */
function problemOf({ name, body }) {
  if (name === undefined) return "catches errors without checking which one it is";
  let isUsed = false;
  let isJudged = false;
  let hasThrow = false;
  /** @param {ts.Node} node */
  const into = (node) => {
    if (ts.isIdentifier(node) && node.text === name.getText()) isUsed = true;
    if (ts.isThrowStatement(node)) hasThrow = true;
    if (ts.isIdentifier(node) && node.text === "isNevertwiceError") isJudged = true;
    if (node.kind === ts.SyntaxKind.InstanceOfKeyword) isJudged = true;
    ts.forEachChild(node, into);
  };
  into(body);
  if (!isUsed) return "catches errors without checking which one it is";
  if (isJudged && !hasThrow) return "checks which error it caught, and does not throw the others";
  return undefined;
}
