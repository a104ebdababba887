/** Checks that a page lists every capability of another system once, and that a test of that name proves each. */
import { linkedPaths, nameDifferences, sectionOf, tableRowsOf } from "./markdown.js";
import { titlesOf } from "./test-titles.js";

/**
 * The title of a test begins with `title` and the name of the capability; what the test shows may follow after a colon.
 * `capabilities` is how many there are, and `mostNotClaimed` how many of them may have a reason instead of a test.
 *
 * @typedef {{ page: string, section: string, title: string, capabilities: number, mostNotClaimed: number }} Listing
 */

/** @type {Listing} */
export const BALDUR = {
  page: "docs/baldur-capabilities.md",
  section: "What Baldur can do",
  title: "Baldur: ",
  capabilities: 81,
  mostNotClaimed: 5,
};

/** @type {Listing} */
export const GRACE = {
  page: "docs/moving-from-grace.md",
  section: "What the specification asks for",
  title: "Grace: ",
  capabilities: 71,
  mostNotClaimed: 8,
};

/** @type {Listing} */
export const BLOCCS = {
  page: "docs/moving-from-bloccs.md",
  section: "What Bloccs can do",
  title: "Bloccs: ",
  capabilities: 51,
  mostNotClaimed: 3,
};

/** @type {Listing} */
export const SKILL = {
  page: "docs/stateless-handlers.md",
  section: "What the guide asks for",
  title: "Skill: ",
  capabilities: 46,
  mostNotClaimed: 2,
};

/** @type {Listing} */
export const IDEMPO = {
  page: "docs/moving-from-idempo.md",
  section: "What idempo can do",
  title: "idempo: ",
  capabilities: 56,
  mostNotClaimed: 0,
};

/** @typedef {{ capability: string, paths: readonly string[], isClaimed: boolean }} Row */

/**
 * @param {Listing} listing
 * @param {string} markdown
 * @param {readonly import("./test-titles.js").TestFile[]} tests
 */
export function capabilitiesPageProblems(listing, markdown, tests) {
  const { page, title: prefix, capabilities, mostNotClaimed } = listing;
  const rows = rowsOf(listing, markdown);
  const names = rows.map(({ capability }) => capability);
  const notClaimed = rows.filter(({ isClaimed }) => !isClaimed).map(({ capability }) => capability);
  // The capabilities that the tests of each file prove. A test that names no row counts with its whole title.
  const proven = new Map(tests.map(({ path, text }) => [path, provenIn(prefix, text, names)]));
  return [
    ...(names.length === capabilities ? [] : [`${page}: ${names.length} capabilities, not ${capabilities}`]),
    ...(notClaimed.length > mostNotClaimed ? [`${page}: ${notClaimed.length} are not claimed`] : []),
    ...nameDifferences(page, "row", names, [...new Set(names)]),
    ...rows.flatMap((row) => rowProblems(listing, row, proven)),
    ...[...proven].flatMap(([path, titles]) => nameDifferences(path, "test", titles, [...new Set(titles)])),
    ...[...proven].flatMap(([path, titles]) =>
      titles.flatMap((title) => titleProblems(listing, path, title, rows)),
    ),
  ];
}

/**
 * @param {Listing} listing
 * @param {Row} row
 * @param {ReadonlyMap<string, readonly string[]>} proven
 */
function rowProblems({ page, title: prefix }, { capability, paths, isClaimed }, proven) {
  if (!isClaimed) return [];
  if (paths.length === 0) return [`${page}: "${capability}" names neither a test nor why it is not claimed`];
  return paths.flatMap((path) => {
    const titles = proven.get(path);
    if (titles === undefined) return [`${page}: "${capability}" names ${path}, which is not a test file`];
    return titles.includes(capability)
      ? []
      : [`${page}: no test in ${path} is called "${prefix}${capability}"`];
  });
}

/**
 * @param {Listing} listing
 * @param {string} path
 * @param {string} title
 * @param {readonly Row[]} rows
 */
function titleProblems({ page, title: prefix }, path, title, rows) {
  const row = rows.find(({ capability }) => capability === title);
  if (row === undefined) return [`${path}: "${prefix}${title}" is not a row of ${page}`];
  if (!row.isClaimed) return [`${path}: "${prefix}${title}" is proven, and ${page} does not claim it`];
  return row.paths.includes(path) ? [] : [`${page}: the row "${title}" does not name ${path}`];
}

/**
 * @param {Listing} listing
 * @param {string} markdown
 * @returns {readonly Row[]}
 */
function rowsOf({ page, section }, markdown) {
  const [, ...rows] = tableRowsOf(sectionOf(markdown, section) ?? "");
  return rows.map(([capability = "", , proof = ""]) => ({
    capability,
    paths: linkedPaths(page, proof),
    isClaimed: !/^not claimed: \S/.test(proof),
  }));
}

/**
 * @param {string} prefix
 * @param {string} text
 * @param {readonly string[]} names
 */
function provenIn(prefix, text, names) {
  // Most files have none, and need not be parsed.
  if (!text.includes(prefix)) return [];
  const titles = titlesOf(text).filter((title) => title.startsWith(prefix));
  return titles.map((title) => nameIn(title.slice(prefix.length), names));
}

/**
 * The longest name that the title equals or begins with, in front of a colon. Names contain colons, too.
 *
 * @param {string} title
 * @param {readonly string[]} names
 */
function nameIn(title, names) {
  const found = names.filter((name) => title === name || title.startsWith(`${name}: `));
  return found.sort((a, b) => b.length - a.length)[0] ?? title;
}
