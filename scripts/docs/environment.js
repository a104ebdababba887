/** Checks that docs/options.md has a row for every environment variable, with its default and its description. */
import { nameDifferences, sectionOf, tableRowsOf } from "./markdown.js";

const PAGE = "docs/options.md";
const HEADING = "Environment";

/**
 * The section may have other tables, so only the rows of variables are read.
 *
 * @param {string} markdown
 * @param {Readonly<Record<string, { readonly default: string, readonly what: string }>>} variables
 */
export function environmentProblems(markdown, variables) {
  const section = sectionOf(markdown, HEADING);
  if (section === undefined) return [`${PAGE}: no section "${HEADING}"`];
  const rows = tableRowsOf(section).flatMap(([first = "", written = "", answer = ""]) => {
    const name = /^`(NEVERTWICE_\w+)`$/.exec(first)?.[1];
    return name === undefined ? [] : [{ name, written, answer }];
  });
  const untrue = rows.flatMap(({ name, written, answer }) => {
    const variable = variables[name];
    if (variable === undefined) return [];
    const meant = `\`${variable.default}\``;
    return [
      ...(written === meant ? [] : [`${PAGE}: the default of ${name} is ${meant}, not ${written}`]),
      ...(answer.startsWith(variable.what)
        ? []
        : [`${PAGE}: ${name} does not begin with "${variable.what}"`]),
    ];
  });
  const named = nameDifferences(
    `${PAGE}, ${HEADING}`,
    "row",
    rows.map(({ name }) => name),
    Object.keys(variables),
  );
  return [...named, ...untrue];
}
