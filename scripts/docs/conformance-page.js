/** Checks that docs/conformance.md has every row once, and that each row names a file with a test of its id. */
import { linkedPaths, nameDifferences, tableRowsOf } from "./markdown.js";
import { titlesOf } from "./test-titles.js";

const PAGE = "docs/conformance.md";

/** How many rows each group has. */
export const GROUPS = {
  SF: 20,
  IK: 21,
  PD: 10,
  RP: 11,
  FP: 13,
  CC: 11,
  EX: 9,
  SC: 12,
  ST: 10,
  OA: 11,
  AG: 18,
  AY: 2,
  GC: 1,
  AP: 2,
  ZA: 1,
  FH: 5,
  IS: 4,
  FW: 9,
  CL: 15,
  EV: 20,
  RS: 12,
};
const SECURITY_RULES = 20;

const ID = /^(?:[A-Z]{2}-\d{2}|security rule \d+)$/;
/** The id, or several, that a title begins with. */
const IDS = /^(?:security rule \d+|[A-Z]{2}-\d{2}(?:, [A-Z]{2}-\d{2})*)(?=[ :,])/;
const NOT_CLAIMED = /^not claimed: \S/;

/** @typedef {{ ids: readonly string[], paths: readonly string[], isClaimed: boolean }} Row */
/** @typedef {import("./test-titles.js").TestFile} TestFile */

/**
 * @param {string} markdown
 * @param {readonly TestFile[]} tests
 * @param {Readonly<Record<string, number>>} [groups]
 * @param {number} [securityRules]
 */
export function conformancePageProblems(markdown, tests, groups = GROUPS, securityRules = SECURITY_RULES) {
  const rows = rowsOf(markdown);
  const proven = new Map(tests.map(({ path, text }) => [path, provenIn(text)]));
  const claimed = new Set(rows.filter(({ isClaimed }) => isClaimed).flatMap(({ ids }) => ids));
  return [
    ...nameDifferences(
      PAGE,
      "row",
      rows.flatMap(({ ids }) => ids),
      meantIds(groups, securityRules),
    ),
    ...rows.flatMap((row) => rowProblems(row, proven)),
    ...[...proven].flatMap(([path, ids]) =>
      [...ids]
        .filter((id) => !claimed.has(id))
        .map((id) => `${path}: a test is called ${id}, which ${PAGE} does not claim`),
    ),
  ];
}

/**
 * @param {Row} row
 * @param {ReadonlyMap<string, ReadonlySet<string>>} proven
 */
function rowProblems({ ids, paths, isClaimed }, proven) {
  if (!isClaimed) return [];
  const [id = ""] = ids;
  if (ids.length > 1) return [`${PAGE}: ${id} and more are claimed in one row; give each its own`];
  if (paths.length === 0) return [`${PAGE}: ${id} names neither a test nor why it is not claimed`];
  return paths.flatMap((path) => {
    const titles = proven.get(path);
    if (titles === undefined) return [`${PAGE}: ${id} names ${path}, which is not a test file`];
    return titles.has(id) ? [] : [`${PAGE}: no test in ${path} begins with ${id}`];
  });
}

/**
 * @param {string} markdown
 * @returns {readonly Row[]}
 */
function rowsOf(markdown) {
  return tableRowsOf(markdown).flatMap(([first = "", , proof = ""]) => {
    const ids = idsOf(first);
    if (ids.length === 0) return [];
    return [{ ids, paths: linkedPaths(PAGE, proof), isClaimed: !NOT_CLAIMED.test(proof) }];
  });
}

/**
 * One id, or all from the first to the last of a range.
 *
 * @param {string} cell
 */
function idsOf(cell) {
  const [first = "", last, ...more] = cell.split(" … ");
  if (!ID.test(first) || more.length > 0) return [];
  if (last === undefined) return [first];
  const group = first.slice(0, 3);
  const count = Number(last.slice(3)) - Number(first.slice(3)) + 1;
  return Array.from({ length: count }, (_, index) => idOf(group, Number(first.slice(3)) + index));
}

/**
 * @param {Readonly<Record<string, number>>} groups
 * @param {number} securityRules
 */
function meantIds(groups, securityRules) {
  const ids = Object.entries(groups).flatMap(([group, count]) =>
    Array.from({ length: count }, (_, index) => idOf(`${group}-`, index + 1)),
  );
  return [...ids, ...Array.from({ length: securityRules }, (_, index) => `security rule ${index + 1}`)];
}

/**
 * @param {string} group with its hyphen
 * @param {number} number
 */
function idOf(group, number) {
  return group + String(number).padStart(2, "0");
}

/**
 * The ids that the titles of a file's tests begin with.
 *
 * @param {string} text
 * @returns {ReadonlySet<string>}
 */
function provenIn(text) {
  // Most files have none, and need not be parsed.
  if (!/[A-Z]{2}-\d{2}|security rule \d/.test(text)) return new Set();
  return new Set(titlesOf(text).flatMap((title) => IDS.exec(title)?.[0].split(", ") ?? []));
}
