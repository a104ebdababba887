/** The page of a suite that compares one thing with and without a guard, and its tables. Nothing here reads or writes. */
import { formatRatio, formatSummary, formatTable } from "./report.js";

/** @typedef {import("./paired.js").Row} Row */
/** @typedef {{ name: string, packages: readonly string[], settings: string }} Library */
/** @typedef {{ title: string, durability: string, ours: Library }} Table */
/** @typedef {{ title: string, bare: Library, tables: readonly Table[] }} Suite */
/** @typedef {(name: string) => string} VersionOf */

/**
 * @param {string} unit at the head of the first column
 * @param {Suite} suite
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function pairedTable(unit, { bare }, { ours }, rows) {
  return formatTable(
    [unit, ours.name, bare.name, "ratio"],
    rows.map((row) => [row.title, formatSummary(row.ours), formatSummary(row.bare), formatRatio(row.ratio)]),
  );
}

/**
 * @param {Suite} suite
 * @param {{ unit: string, intro: string, method: readonly string[], all: readonly (readonly Row[])[], versionOf: VersionOf }} texts
 * `all` has the rows of each table
 */
export function pairedPage(suite, { unit, intro, method, all, versionOf }) {
  const tables = suite.tables.flatMap((table, i) => {
    const rows = all[i];
    return rows === undefined
      ? []
      : [`## ${table.title}`, `${table.durability}.`, pairedTable(unit, suite, table, rows)];
  });
  const libraries = [
    ...suite.tables.map(({ title, ours }) => ({ ...ours, name: `${title}, ${ours.name}` })),
    suite.bare,
  ];
  const settings = libraries.map(({ name, packages, settings: how }) => {
    const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
    return `- **${name}** (${versions}): ${how}.`;
  });
  const parts = [
    `# ${suite.title}`,
    intro,
    ...tables,
    "## How it was measured",
    ...method,
    settings.join("\n"),
  ];
  return `${parts.join("\n\n")}\n`;
}
