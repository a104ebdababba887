/** Reads TypeScript files for the checks: their imports, functions, comments and names. */
import ts from "typescript";

/** @typedef {{ path: string, text: string }} File `path` is relative to the repository, with forward slashes */
/** @typedef {{ specifier: string, line: number }} Import */

export const SRC = "packages/nevertwice/src/";

/** @param {readonly File[]} files */
export function sourcesOf(files) {
  return files.filter(({ path }) => path.startsWith(SRC) && path.endsWith(".ts"));
}

/**
 * The sources of the library and of the server: the rules of style hold for both.
 *
 * @param {readonly File[]} files
 */
export function allSourcesOf(files) {
  const server = files.filter(({ path }) => /^packages\/server\/(src|cli|dashboard)\/.*\.tsx?$/.test(path));
  return [...sourcesOf(files), ...server];
}

/** @type {WeakMap<File, ts.SourceFile>} */
const parsed = new WeakMap();

/** @param {File} file */
function parse(file) {
  const known = parsed.get(file);
  if (known !== undefined) return known;
  const tree = ts.createSourceFile(file.path, file.text, ts.ScriptTarget.ESNext, true);
  parsed.set(file, tree);
  return tree;
}

/**
 * @param {File} file
 * @param {(node: ts.Node) => void} visit
 */
export function walk(file, visit) {
  /** @param {ts.Node} node */
  const into = (node) => {
    visit(node);
    ts.forEachChild(node, into);
  };
  into(parse(file));
}

/**
 * @param {File} file
 * @param {number} position
 */
export function lineAt(file, position) {
  return parse(file).getLineAndCharacterOfPosition(position).line + 1;
}

/**
 * Every module that the file imports, re-exports, loads later, or names in a type.
 *
 * @param {File} file
 * @returns {readonly Import[]}
 */
export function importsOf(file) {
  /** @type {Import[]} */
  const imports = [];
  walk(file, (node) => {
    const specifier = moduleNamedBy(node);
    if (specifier !== undefined) imports.push({ specifier, line: lineAt(file, node.getStart()) });
  });
  return imports;
}

/**
 * @param {ts.Node} node
 * @returns {string | undefined}
 */
function moduleNamedBy(node) {
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier))
    return node.moduleSpecifier.text;
  if (ts.isExportDeclaration(node) && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier))
    return node.moduleSpecifier.text;
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    const [argument] = node.arguments;
    if (argument && ts.isStringLiteralLike(argument)) return argument.text;
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    const { literal } = node.argument;
    if (ts.isStringLiteral(literal)) return literal.text;
  }
  return undefined;
}

/**
 * The repository path of a relative import; undefined for packages and built-in modules.
 *
 * @param {string} from
 * @param {string} specifier
 */
export function resolveRelative(from, specifier) {
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}

/**
 * @param {File} file
 * @returns {readonly { text: string, line: number }[]}
 */
export function commentsOf(file) {
  const tree = parse(file);
  /** @type {Map<number, { text: string, line: number }>} */
  const comments = new Map();
  /** @param {readonly ts.CommentRange[] | undefined} ranges */
  const keep = (ranges) => {
    for (const { pos, end } of ranges ?? [])
      comments.set(pos, { text: file.text.slice(pos, end), line: lineAt(file, pos) });
  };
  /** @param {ts.Node} node */
  const into = (node) => {
    if (ts.isJSDoc(node)) return;
    keep(ts.getLeadingCommentRanges(file.text, node.getFullStart()));
    keep(ts.getTrailingCommentRanges(file.text, node.getEnd()));
    for (const child of node.getChildren(tree)) into(child);
  };
  into(tree);
  return [...comments.values()];
}
