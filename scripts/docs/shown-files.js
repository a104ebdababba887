/** Checks that a block of a document which names a file, such as ```js examples/recipes/web/h3.js, shows that file. */
import { readFile } from "node:fs/promises";
import { ROOT } from "../command.js";

/** @typedef {{ page: string, file: string, code: string }} ShownFile */

/**
 * @param {string} path
 * @param {string} markdown
 * @returns {readonly ShownFile[]}
 */
export function shownFiles(path, markdown) {
  const blocks = [...markdown.matchAll(/^```\w+ (\S+\/\S+)\n([\s\S]*?)^```$/gm)];
  return blocks.map(({ 1: file = "", 2: code = "" }) => ({ page: path, file, code }));
}

/** @param {readonly ShownFile[]} shown */
export async function shownFileProblems(shown) {
  const problems = shown.map(async ({ page, file, code }) => {
    const text = await readFile(ROOT + file, "utf8").catch(() => undefined);
    if (text === undefined) return [`${page}: there is no ${file}`];
    return text === code ? [] : [`${page}: the block of ${file} is not what the file contains`];
  });
  return (await Promise.all(problems)).flat();
}
