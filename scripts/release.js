/** `node scripts/release.js v1.2.3`: checks that this tag may be published. Both packages are released together, with one version. */
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { ROOT } from "./command.js";

/** @typedef {{ name: string, version: string, dependencies?: Readonly<Record<string, string>> }} Manifest */

/**
 * @param {string} tag
 * @param {Manifest} library
 * @param {Manifest} server
 * @returns {string[]} what is wrong
 */
export function releaseProblems(tag, library, server) {
  const problems = [library, server]
    .filter(({ version }) => tag !== `v${version}`)
    .map(({ name, version }) => `the tag is ${tag}, and ${name} has the version ${version}`);
  const needed = server.dependencies?.[library.name];
  if (needed === library.version) return problems;
  return [...problems, `${server.name} needs ${library.name} ${needed}, and not ${library.version}`];
}

/** @param {string} name the folder of the package */
async function manifestOf(name) {
  return JSON.parse(await readFile(`${ROOT}packages/${name}/package.json`, "utf8"));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = releaseProblems(
    process.argv[2] ?? "(none)",
    await manifestOf("nevertwice"),
    await manifestOf("server"),
  );
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
