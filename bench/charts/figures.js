/** Reads figures from the pages of bench/results. A figure that a page does not have is an error, never a guess. */

/**
 * The numbers of the first table below a heading: by the name of the row, by the name of the column. Cells such as
 * "46,471 (44,205 to 51,277)" count as their median; cells without a number are left out.
 *
 * @param {string} page
 * @param {string} heading the start of the heading's text
 * @returns {Readonly<Record<string, Readonly<Record<string, number>>>>}
 */
export function readTable(page, heading) {
  const lines = page.split("\n");
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, "").startsWith(heading));
  if (start < 0) throw new Error(`no heading begins with ${heading}`);
  const first = lines.findIndex((line, i) => i > start && line.startsWith("|"));
  if (first < 0) throw new Error(`no table follows ${heading}`);
  const columns = cellsIn(lines[first] ?? "");
  /** @type {Record<string, Record<string, number>>} */
  const rows = {};
  for (const line of lines.slice(first + 2)) {
    if (!line.startsWith("|")) break;
    const [name = "", ...values] = cellsIn(line);
    const row = /** @type {Record<string, number>} */ (Object.create(null));
    for (const [i, value] of values.entries()) {
      const number = Number(/^[\d,.]+/.exec(value)?.[0].replaceAll(",", ""));
      if (value !== "" && Number.isFinite(number)) row[columns[i + 1] ?? ""] = number;
    }
    rows[name] = row;
  }
  return rows;
}

/** @param {string} line */
function cellsIn(line) {
  return line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/**
 * The commit that a page was measured at, or undefined if it does not say.
 *
 * @param {string} page
 */
export function readCommit(page) {
  return /\bCommit ([0-9a-f]{7,40})\b/.exec(page)?.[1];
}

/**
 * What takes how long among few and among many keys: `- **SQLite …**: a claim takes 0.38 ms among 10,000 keys and 0.43 ms
 * among 10,000,000`.
 *
 * @param {string} page
 */
export function readAmongKeys(page) {
  const pattern =
    /^- \*\*(\w+) [^*]*\*\*: (.+?) takes? ([\d.]+) ms among ([\d,]+) keys and ([\d.]+) ms among ([\d,]+)[^:]*: ([\d.]+) times/gm;
  return [...page.matchAll(pattern)].map(
    ([, store = "", what = "", few, fewKeys = "", many, manyKeys = "", ratio = ""]) => ({
      store,
      what,
      few: { keys: fewKeys, ms: Number(few) },
      many: { keys: manyKeys, ms: Number(many) },
      ratio,
    }),
  );
}
