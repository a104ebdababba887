/** Checks the style of the whole repository. `node scripts/tidy.js` prints what breaks a rule. */
import { readdir, readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { ROOT } from "./command.js";
import { sidebarProblems } from "./site/sections.js";
import { catchProblems } from "./tidy/catches.js";
import { examplesListProblems } from "./tidy/examples-list.js";
import { exportsProblems } from "./tidy/exports-map.js";
import { functionNameProblems } from "./tidy/function-names.js";
import { layerProblems } from "./tidy/layers.js";
import { linkProblems } from "./tidy/links.js";
import { openingProblems } from "./tidy/openings.js";
import { pageLengthProblems } from "./tidy/page-lengths.js";
import { placeProblems } from "./tidy/places.js";
import { proseProblems } from "./tidy/prose.js";
import { sizeProblems } from "./tidy/sizes.js";
import { testPlaceProblems } from "./tidy/test-places.js";
import { titleProblems } from "./tidy/test-titles.js";
import { typeNameProblems } from "./tidy/type-names.js";
import { nameProblems, wordProblems } from "./tidy/words.js";

/** @typedef {(files: readonly import("./tidy/source.js").File[]) => readonly string[]} Check */

/** @type {readonly Check[]} */
const CHECKS = [
  layerProblems,
  exportsProblems,
  nameProblems,
  wordProblems,
  placeProblems,
  sizeProblems,
  linkProblems,
  openingProblems,
  testPlaceProblems,
  titleProblems,
  catchProblems,
  functionNameProblems,
  proseProblems,
  typeNameProblems,
  sidebarProblems,
  pageLengthProblems,
  examplesListProblems,
];

const NOT_OURS = new Set(["node_modules", "build", "dist", ".git", ".cache", "coverage"]);
const BINARY = /\.(png|jpe?g|gif|ico|webp|woff2?|tgz|db|sqlite)$/;

export async function tidyProblems() {
  const files = await repositoryFiles();
  return CHECKS.flatMap((check) => check(files));
}

/**
 * @param {string} [folder] ends with a slash
 * @returns {Promise<import("./tidy/source.js").File[]>}
 */
export async function repositoryFiles(folder = "") {
  const entries = await readdir(ROOT + folder, { withFileTypes: true });
  const nested = entries
    .filter(({ name }) => !NOT_OURS.has(name))
    .map(async (entry) => {
      const path = folder + entry.name;
      if (entry.isDirectory()) return repositoryFiles(`${path}/`);
      if (!entry.isFile()) return [];
      // A picture has no text to check, but a page may link to it.
      return [{ path, text: BINARY.test(entry.name) ? "" : await readFile(ROOT + path, "utf8") }];
    });
  return (await Promise.all(nested)).flat();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = await tidyProblems();
  for (const problem of problems) console.log(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
