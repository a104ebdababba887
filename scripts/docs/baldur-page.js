/** docs/moving-from-baldur.md has every capability of Baldur once, and each is proven by a test that has its name. */
import { linkedPaths, nameDifferences, sectionOf, tableRowsOf } from "./markdown.js";
import { titlesOf } from "./test-titles.js";

const PAGE = "docs/moving-from-baldur.md";
const SECTION = "What Baldur can do";

/** What a title begins with; the capability follows, and after a colon what the test shows of it. */
const TITLE = "Baldur: ";

/** How many capabilities there are, and how many of them may have a reason instead of a test. */
export const CAPABILITIES = 81;
const MOST_NOT_CLAIMED = 5;

/** @typedef {{ capability: string, paths: readonly string[], isClaimed: boolean }} Row */

/**
 * @param {string} markdown
 * @param {readonly import("./test-titles.js").TestFile[]} tests
 * @param {number} [capabilities]
 */
export function baldurPageProblems(markdown, tests, capabilities = CAPABILITIES) {
  const rows = rowsOf(markdown);
  const names = rows.map(({ capability }) => capability);
  const notClaimed = rows.filter(({ isClaimed }) => !isClaimed).map(({ capability }) => capability);
  // By path, the names of its tests; of a test that is no row's, the whole title.
  const proven = new Map(tests.map(({ path, text }) => [path, provenIn(text, names)]));
  return [
    ...(names.length === capabilities ? [] : [`${PAGE}: ${names.length} capabilities, not ${capabilities}`]),
    ...(notClaimed.length > MOST_NOT_CLAIMED ? [`${PAGE}: ${notClaimed.length} are not claimed`] : []),
    ...nameDifferences(PAGE, "row", names, [...new Set(names)]),
    ...rows.flatMap((row) => rowProblems(row, proven)),
    ...[...proven].flatMap(([path, titles]) => nameDifferences(path, "test", titles, [...new Set(titles)])),
    ...[...proven].flatMap(([path, titles]) => titles.flatMap((title) => titleProblems(path, title, rows))),
  ];
}

/**
 * @param {Row} row
 * @param {ReadonlyMap<string, readonly string[]>} proven
 */
function rowProblems({ capability, paths, isClaimed }, proven) {
  if (!isClaimed) return [];
  if (paths.length === 0) return [`${PAGE}: "${capability}" names neither a test nor why it is not claimed`];
  return paths.flatMap((path) => {
    const titles = proven.get(path);
    if (titles === undefined) return [`${PAGE}: "${capability}" names ${path}, which is no file of tests`];
    return titles.includes(capability)
      ? []
      : [`${PAGE}: no test in ${path} is called "${TITLE}${capability}"`];
  });
}

/**
 * @param {string} path
 * @param {string} title
 * @param {readonly Row[]} rows
 */
function titleProblems(path, title, rows) {
  const row = rows.find(({ capability }) => capability === title);
  if (row === undefined) return [`${path}: "${TITLE}${title}" is no row of ${PAGE}`];
  if (!row.isClaimed) return [`${path}: "${TITLE}${title}" is proven, and ${PAGE} does not claim it`];
  return row.paths.includes(path) ? [] : [`${PAGE}: the row "${title}" does not name ${path}`];
}

/**
 * @param {string} markdown
 * @returns {readonly Row[]}
 */
function rowsOf(markdown) {
  const [, ...rows] = tableRowsOf(sectionOf(markdown, SECTION) ?? "");
  return rows.map(([capability = "", , proof = ""]) => ({
    capability,
    paths: linkedPaths(PAGE, proof),
    isClaimed: !/^not claimed: \S/.test(proof),
  }));
}

/**
 * @param {string} text
 * @param {readonly string[]} names
 */
function provenIn(text, names) {
  // Most files have none, and need not be taken apart.
  if (!text.includes(TITLE)) return [];
  const titles = titlesOf(text).filter((title) => title.startsWith(TITLE));
  return titles.map((title) => nameIn(title.slice(TITLE.length), names));
}

/**
 * The longest of the names that the title is, or begins with before a colon: names have colons too.
 *
 * @param {string} title
 * @param {readonly string[]} names
 */
function nameIn(title, names) {
  const found = names.filter((name) => title === name || title.startsWith(`${name}: `));
  return found.sort((a, b) => b.length - a.length)[0] ?? title;
}
