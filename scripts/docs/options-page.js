/** Checks that a page has a row for every option of its sections, with the default that the code has. */
import ts from "typescript";
import { nameDifferences, sectionOf, tableRowsOf } from "./markdown.js";
import { defaultTag } from "./option-comments.js";

/**
 * @typedef {object} Option
 * @property {string} name
 * @property {string} default the text of its cell
 * @property {Stated} [stated] what its doc comment says
 */
/** @typedef {{ owner: string, written: string | undefined, value: unknown }} Stated `written` is the text of `@default` */
/** @typedef {{ heading: string, options: readonly Option[] }} Section */

/**
 * @param {string} page
 * @param {string} markdown
 * @param {readonly Section[]} sections
 */
export function optionsPageProblems(page, markdown, sections) {
  return sections.flatMap(({ heading, options }) => {
    const section = sectionOf(markdown, heading);
    if (section === undefined) return [`${page}: no section "${heading}"`];
    const rows = tableRowsOf(section).flatMap(([first = "", ...cells]) => {
      const name = /^`(\w+)`$/.exec(first)?.[1];
      // The columns are: option, default, what it does; or option, type, default, what it does.
      const written = cells.at(-2) ?? cells[0] ?? "";
      return name === undefined ? [] : [{ name, written }];
    });
    const untrue = rows.flatMap(({ name, written }) => {
      const option = options.find((candidate) => candidate.name === name);
      if (option === undefined || option.default === written) return [];
      return [`${page}: the default of ${name} is ${option.default}, not ${written}`];
    });
    const named = nameDifferences(
      `${page}, ${heading}`,
      "row",
      rows.map(({ name }) => name),
      options.map(({ name }) => name),
    );
    return [...named, ...untrue];
  });
}

/**
 * The members of an interface, whether each must be given, and what its `@default` says.
 *
 * @param {string} source
 * @param {string} name
 */
export function interfaceMembers(source, name) {
  const tree = ts.createSourceFile("source.ts", source, ts.ScriptTarget.ESNext, true);
  const found = tree.statements.find(
    (statement) => ts.isInterfaceDeclaration(statement) && statement.name.text === name,
  );
  if (found === undefined) throw new Error(`there is no interface ${name}`);
  return /** @type {ts.InterfaceDeclaration} */ (found).members.flatMap((member) =>
    member.name !== undefined && ts.isIdentifier(member.name)
      ? [
          {
            name: member.name.text,
            isRequired: member.questionToken === undefined,
            owner: name,
            written: defaultTag(member),
          },
        ]
      : [],
  );
}

/**
 * How a page writes a default: as in code, with its unit for people. The text of `{ text }` is taken unchanged.
 *
 * @param {string} name
 * @param {unknown} value
 */
export function defaultCell(name, value) {
  if (value === undefined) return "none";
  if (typeof value === "object" && value !== null && "text" in value) return String(value.text);
  if (typeof value !== "number") return `\`${JSON.stringify(value)}\``;
  const written = `\`${String(value).replace(/\B(?=(\d{3})+$)/g, "_")}\``;
  if (value === 0) return written;
  if (name.endsWith("Ms")) return `${written} (${inUnits(value, DURATIONS)})`;
  if (name.endsWith("Bytes")) return `${written} (${inUnits(value, BYTES)})`;
  return written;
}

/** @typedef {readonly (readonly [unit: string, size: number])[]} Units from the largest down */

/** @type {Units} */
const DURATIONS = [
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
  ["ms", 1],
];

/** @type {Units} */
const BYTES = [
  ["MiB", 1_048_576],
  ["KiB", 1_024],
  ["bytes", 1],
];

/**
 * @param {number} value
 * @param {Units} units
 */
function inUnits(value, units) {
  const [unit, size] = units.find(([, candidate]) => value >= candidate && value % candidate === 0) ?? [
    "",
    1,
  ];
  return `${value / size} ${unit}`;
}
