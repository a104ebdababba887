/** Everything that users see of the packages in an editor: each exported name, and each member of the types behind it. */
import ts from "typescript";

/**
 * @typedef {object} PublicName
 * @property {string} name as users know it: `Policy.waitMs`
 * @property {readonly ts.Declaration[]} declarations several for overloads, and for a member of several types of a union
 * @property {boolean} isMember of a type or a class, rather than exported itself
 */

/** How the comment of a type begins whose members a driver or framework documents. */
const FOREIGN = /^The (parts?|members) of\b.*?\bused here\b/;
/** Types that users write as an object, whether they are exported or not. */
const OPTIONS = /(Options|Settings|Request|Rules?|Details)$/;

/**
 * @param {ts.Program} program
 * @param {readonly string[]} entries the files that users import
 * @param {readonly string[]} homes the folders of the sources; what is declared elsewhere is not ours
 * @returns {readonly PublicName[]} each once, however many entries lead to it
 */
export function publicNames(program, entries, homes) {
  const checker = program.getTypeChecker();
  /** @type {Map<string | ts.Symbol, { name: string, declarations: ts.Declaration[], isMember: boolean }>} */
  const found = new Map();
  /** @type {Set<ts.Node>} */
  const visited = new Set();

  for (const entry of entries) {
    const file = program.getSourceFile(entry);
    const module = file && checker.getSymbolAtLocation(file);
    if (module === undefined) throw new Error(`${entry} exports nothing`);
    for (const alias of checker.getExportsOfModule(module)) {
      const symbol = resolved(alias);
      for (const declaration of declarationsOf(symbol)) add(symbol, alias.name, declaration, false);
    }
  }
  const exported = new Set([...found.values()].flatMap(({ declarations }) => declarations));
  for (const { name, declarations } of [...found.values()])
    for (const declaration of declarations) visit(declaration, name);
  return [...found.values()];

  /** @param {ts.Symbol} symbol */
  function resolved(symbol) {
    return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  }

  /** @param {ts.Symbol} symbol */
  function declarationsOf(symbol) {
    return (symbol.declarations ?? []).filter((node) =>
      homes.some((home) => node.getSourceFile().fileName.startsWith(home)),
    );
  }

  /**
   * @param {string | ts.Symbol} key
   * @param {string} name
   * @param {ts.Declaration} declaration
   * @param {boolean} isMember
   */
  function add(key, name, declaration, isMember) {
    const known = found.get(key);
    if (known === undefined) found.set(key, { name, declarations: [declaration], isMember });
    else if (!known.declarations.includes(declaration)) known.declarations.push(declaration);
  }

  /**
   * Of a function its parameters and what it returns, of a type its members: not the bodies.
   *
   * @param {ts.Node} node
   * @param {string} owner
   */
  function visit(node, owner) {
    // A conditional type computes a type from others.
    if (visited.has(node) || isHidden(node) || ts.isConditionalTypeNode(node)) return;
    if (isType(node) && FOREIGN.test(commentOf(node).replaceAll("\n", " "))) return;
    visited.add(node);
    if (ts.isTypeReferenceNode(node)) visitNamed(node.typeName);
    // What a type inherits is its own, whether the base is exported or not.
    if (ts.isExpressionWithTypeArguments(node)) visitNamed(node.expression, owner);
    const name = isMember(node) ? `${owner}.${node.name.getText()}` : owner;
    if (isMember(node)) add(memberKey(node, name), name, node, true);
    ts.forEachChild(node, (child) => {
      if (!ts.isBlock(child) && !isValue(child)) visit(child, name);
    });
  }

  /**
   * @param {ts.Node} name of a type
   * @param {string} [heir] the type that inherits from it
   */
  function visitNamed(name, heir) {
    const symbol = checker.getSymbolAtLocation(name);
    if (symbol === undefined) return;
    const { name: own } = resolved(symbol);
    for (const declaration of declarationsOf(resolved(symbol)))
      if (exported.has(declaration)) visit(declaration, own);
      else if (heir !== undefined || OPTIONS.test(own)) visit(declaration, heir ?? own);
  }
}

/**
 * @param {ts.Node} node
 * @returns {node is ts.Declaration & { name: ts.PropertyName }}
 */
function isMember(node) {
  return (
    ts.isPropertySignature(node) ||
    ts.isMethodSignature(node) ||
    ((ts.isPropertyDeclaration(node) || ts.isMethodDeclaration(node) || ts.isAccessor(node)) &&
      ts.isClassLike(node.parent))
  );
}

/**
 * @param {ts.Node} node
 * @returns {node is ts.InterfaceDeclaration | ts.TypeAliasDeclaration}
 */
function isType(node) {
  return ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
}

/**
 * Members of the same name in a union of types, and overloads, need one comment together.
 *
 * @param {ts.Node} node
 * @param {string} name
 */
function memberKey(node, name) {
  const union = ts.findAncestor(
    node,
    (parent) => parent !== node && (ts.isUnionTypeNode(parent) || isMember(parent)),
  );
  const owner = union !== undefined && ts.isUnionTypeNode(union) ? union : node.parent;
  return `${node.getSourceFile().fileName}:${owner.pos} ${name}`;
}

/**
 * Private members, and those that only implement what the base declares.
 *
 * @param {ts.Node} node
 */
function isHidden(node) {
  if (ts.isClassStaticBlockDeclaration(node)) return true;
  if (!ts.isClassElement(node)) return false;
  if (node.name !== undefined && ts.isPrivateIdentifier(node.name)) return true;
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected | ts.ModifierFlags.Override;
  return (ts.getCombinedModifierFlags(node) & hidden) !== 0;
}

/**
 * The value of a variable is not part of its type, but a function's parameters are.
 *
 * @param {ts.Node} node
 */
function isValue(node) {
  return ts.isExpression(node) && !ts.isArrowFunction(node) && !ts.isExpressionWithTypeArguments(node);
}

/**
 * Whether an editor shows a comment, or the comment of the type in a union that the member tells apart.
 *
 * @param {PublicName} publicName
 */
export function isDocumented({ declarations }) {
  return declarations.some((node) => commentOf(node) !== "" || tellsApart(node));
}

/** @param {ts.Declaration} declaration */
export function commentOf(declaration) {
  return ts
    .getJSDocCommentsAndTags(declaration)
    .filter(ts.isJSDoc)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "")
    .join("\n")
    .trim();
}

/**
 * `status: "lost"` in a union whose types each have a comment before them.
 *
 * @param {ts.Node} node
 */
function tellsApart(node) {
  if (!ts.isPropertySignature(node) || node.type === undefined) return false;
  const type = node.parent;
  // `Exclude<Result, { readonly status: "ran" | "lost" }>` only chooses.
  if (ts.isTypeReferenceNode(type.parent) && /^(Exclude|Extract)$/.test(type.parent.typeName.getText()))
    return true;
  if (!ts.isLiteralTypeNode(node.type)) return false;
  const before = type.getFullStart();
  const { text } = type.getSourceFile();
  const between = text.slice(before, type.getStart());
  return between.includes("/**") || /\*\/\s*\|\s*$/.test(text.slice(0, type.getStart()));
}

/**
 * The texts of the tags of this name.
 *
 * @param {PublicName} publicName
 * @param {string} tag
 */
export function tagsOf({ declarations }, tag) {
  return declarations
    .flatMap((node) => ts.getJSDocTags(node))
    .filter(({ tagName }) => tagName.text === tag)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "");
}

/** @param {PublicName} publicName */
export function placeOf({ declarations: [first] }) {
  const file = /** @type {ts.Declaration} */ (first).getSourceFile();
  const { line } = file.getLineAndCharacterOfPosition(/** @type {ts.Declaration} */ (first).getStart());
  return { file: file.fileName, line: line + 1 };
}
