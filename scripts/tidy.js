/** Style as a test: the rules that a reader should never have to check. Run alone, it prints what it finds. */
import { readdir, readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { ROOT } from "./command.js";
import { cycleProblems } from "./tidy/cycles.js";
import { exportsProblems } from "./tidy/exports-map.js";
import { layerProblems } from "./tidy/layers.js";
import { linkProblems } from "./tidy/links.js";
import { openingProblems } from "./tidy/openings.js";
import { placeProblems } from "./tidy/places.js";
import { sizeProblems } from "./tidy/sizes.js";
import { nameProblems, wordProblems } from "./tidy/words.js";

/** @type {readonly ((files: readonly import("./tidy/source.js").File[]) => readonly string[])[]} */
const CHECKS = [
  layerProblems,
  cycleProblems,
  exportsProblems,
  nameProblems,
  wordProblems,
  placeProblems,
  sizeProblems,
  linkProblems,
  openingProblems,
];

const NOT_OURS = new Set(["node_modules", "dist", ".git", ".cache", "coverage"]);
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
      // There is nothing to read in a picture, but it may be linked to.
      return [{ path, text: BINARY.test(entry.name) ? "" : await readFile(ROOT + path, "utf8") }];
    });
  return (await Promise.all(nested)).flat();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = await tidyProblems();
  for (const problem of problems) console.log(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
