/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";

/**
 * @typedef {object} BenchArguments
 * @property {readonly string[]} names of the suites to run
 * @property {boolean} isQuick
 * @property {string | undefined} compare the revision to compare this one with
 */

/**
 * Throws an error whose message is for the user.
 *
 * @param {readonly string[]} args
 * @param {{ all: readonly string[], comparable: readonly string[] }} suites their names, and those of which revisions can be compared
 * @returns {BenchArguments}
 */
export function parseBenchArguments(args, { all, comparable }) {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { quick: { type: "boolean", default: false }, compare: { type: "string" } },
    allowPositionals: true,
  });
  const { quick: isQuick, compare } = values;
  if (compare === "") throw new Error("--compare needs a revision: a commit, a branch or a tag.");
  const allowed = compare === undefined ? all : comparable;
  const unknown = positionals.find((name) => !all.includes(name));
  if (unknown !== undefined)
    throw new Error(`There is no suite ${unknown}. The suites are ${all.join(", ")}.`);
  const other = positionals.find((name) => !allowed.includes(name));
  if (other !== undefined)
    throw new Error(`${other} cannot compare revisions. The suites that can are ${allowed.join(", ")}.`);
  return { names: positionals.length === 0 ? allowed : positionals, isQuick, compare };
}
