/** The table of runtimes in docs/runtimes.md, between its heading and the next paragraph. */

/** @typedef {{ name: string, version: string, smoke: string, tests: string }} MatrixRow */

const HEAD = "| runtime | version | smoke program | tests |\n| --- | --- | --- | --- |\n";

/**
 * @param {string} page
 * @returns {readonly MatrixRow[]}
 */
export function readTable(page) {
  const { rows } = split(page);
  return rows
    .trim()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [name = "", version = "", smoke = "", tests = ""] = line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim());
      return { name: name.replaceAll("`", ""), version, smoke, tests };
    });
}

/**
 * @param {string} page
 * @param {readonly MatrixRow[]} rows
 * @returns {string} the page with these rows in place of its own
 */
export function withTable(page, rows) {
  const { before, after } = split(page);
  const lines = rows.map(
    ({ name, version, smoke, tests }) => `| \`${name}\` | ${version} | ${smoke} | ${tests} |\n`,
  );
  return `${before}${HEAD}${lines.join("")}${after}`;
}

/** What a row counts, and how: the text after the number. */
const COUNTS = ["promises", "store cases", "subpaths required"];

/**
 * The table is written by hand-started runs, so the package may have grown since: every Node must have loaded all of its
 * subpaths, and all rows must be of one state of the program.
 *
 * @param {string} page
 * @param {number} subpaths how many each Node loads
 * @returns {readonly string[]}
 */
export function tableProblems(page, subpaths) {
  const rows = readTable(page);
  const again = "run `npm run test:matrix -- --smoke` again";
  const stale = rows
    .filter(({ name, smoke }) => name.startsWith("node") && !smoke.includes(`${subpaths} ${COUNTS.at(-1)}`))
    .map(
      ({ name }) =>
        `docs/runtimes.md: ${name} did not load the ${subpaths} subpaths of package.json: ${again}`,
    );
  const mixed = COUNTS.filter((what) => new Set(rows.flatMap((row) => countOf(row, what))).size > 1).map(
    (what) => `docs/runtimes.md: the rows have different numbers of ${what}: ${again}`,
  );
  return [...stale, ...mixed];
}

/**
 * @param {MatrixRow} row
 * @param {string} what
 */
function countOf({ smoke }, what) {
  return smoke.split(", ").filter((part) => part.endsWith(` ${what}`));
}

/** @param {string} page */
function split(page) {
  const start = page.indexOf(HEAD);
  if (start === -1) throw new Error("docs/runtimes.md has no table of runtimes");
  const end = page.indexOf("\n\n", start);
  const whole = end === -1 ? page.length : end + 1;
  return {
    before: page.slice(0, start),
    rows: page.slice(start + HEAD.length, whole),
    after: page.slice(whole),
  };
}
