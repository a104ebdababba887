/** Finds the error codes that a function of the library can throw while it is called, by following the functions that it calls. */
import ts from "typescript";

/** The classes of our errors: the first argument is the code. */
const ERRORS = /^(NevertwiceError|ClientError)$/;

/**
 * Errors that are made in nested functions do not count: those run later. What a store or a handler throws is not known here.
 *
 * @param {ts.TypeChecker} checker
 * @param {readonly ts.Node[]} declarations of the function
 * @param {(fileName: string) => boolean} isOurs
 * @returns {readonly string[]} sorted
 */
export function thrownCodes(checker, declarations, isOurs) {
  /** @type {Set<string>} */
  const codes = new Set();
  /** @type {Set<ts.Node>} */
  const visited = new Set();
  for (const declaration of declarations) visitFunction(declaration);
  return [...codes].sort();

  /** @param {ts.Node} declaration */
  function visitFunction(declaration) {
    if (visited.has(declaration) || !isOurs(declaration.getSourceFile().fileName)) return;
    visited.add(declaration);
    const made = ts.isVariableDeclaration(declaration) ? declaration.initializer : declaration;
    if (made === undefined || !ts.isFunctionLike(made) || !("body" in made) || made.body === undefined)
      return;
    visit(made.body);
  }

  /** @param {ts.Node} node */
  function visit(node) {
    if (ts.isFunctionLike(node) || ts.isClassLike(node)) return;
    if (ts.isNewExpression(node) && ERRORS.test(node.expression.getText())) {
      const code = node.arguments?.[0];
      if (code !== undefined && ts.isStringLiteral(code)) codes.add(code.text);
    }
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      const symbol = checker.getSymbolAtLocation(node.expression);
      const target =
        symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias
          ? checker.getAliasedSymbol(symbol)
          : symbol;
      for (const declaration of target?.declarations ?? []) visitFunction(declaration);
    }
    ts.forEachChild(node, visit);
  }
}
