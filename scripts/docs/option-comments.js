/** Checks the doc comments of options: each option has one, and what its `@default` says is the default in the code. */
import ts from "typescript";

/**
 * @param {string} file
 * @param {string} source
 * @param {string} name the interface of the options
 * @param {Readonly<Record<string, unknown>>} defaults
 */
export function optionCommentProblems(file, source, name, defaults) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.ESNext, true);
  const found = tree.statements.find(
    (statement) => ts.isInterfaceDeclaration(statement) && statement.name.text === name,
  );
  if (found === undefined) return [`${file}: there is no interface ${name}`];
  return /** @type {ts.InterfaceDeclaration} */ (found).members.flatMap((member) => {
    const option = member.name?.getText(tree) ?? "";
    const comment = ts.getJSDocCommentsAndTags(member)[0];
    if (comment === undefined) return [`${file}: ${name}.${option} has no doc comment`];
    const value = defaults[option];
    if (value === undefined) return [];
    const written = defaultTag(member);
    if (written === undefined) return [`${file}: ${name}.${option} does not say its @default`];
    return saysDefault(written, value)
      ? []
      : [`${file}: the default of ${name}.${option} is ${JSON.stringify(value)}, not ${written}`];
  });
}

/**
 * The same for the options of a page, whose defaults are known. A default in words, such as "the system clock", is not compared.
 *
 * @param {readonly import("./options-page.js").Section[]} sections
 */
export function defaultTagProblems(sections) {
  return sections.flatMap(({ options }) =>
    options.flatMap(({ name, stated }) => {
      if (stated?.value === undefined || typeof stated.value === "object") return [];
      const { owner, written, value } = stated;
      if (written === undefined)
        return [`${owner}.${name} does not say its @default, ${JSON.stringify(value)}`];
      return saysDefault(written, value)
        ? []
        : [`the default of ${owner}.${name} is ${JSON.stringify(value)}, not ${written}`];
    }),
  );
}

/** @param {ts.Node} member */
export function defaultTag(member) {
  const tag = ts.getJSDocTags(member).find(({ tagName }) => tagName.text === "default");
  return ts.getTextOfJSDocComment(tag?.comment)?.trim();
}

/**
 * Numbers may have separators, and a duration or a size its unit in brackets behind them.
 *
 * @param {string} written
 * @param {unknown} value
 */
function saysDefault(written, value) {
  if (typeof value !== "number") return written.replaceAll(", ", ",") === JSON.stringify(value);
  return Number(written.replace(/ \(.*\)$/, "").replaceAll("_", "")) === value;
}
