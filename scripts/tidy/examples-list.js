/** Checks that examples/README.md lists every example with the packages that it needs and the folder beside it that it uses. */
import { importsOf, resolveRelative } from "./source.js";

const LIST = "examples/README.md";
const EXAMPLE = /^examples\/[\w-]+\.js$/;

/** @param {readonly import("./source.js").File[]} files */
export function examplesListProblems(files) {
  const list = files.find(({ path }) => path === LIST)?.text ?? "";
  return files
    .filter(({ path }) => EXAMPLE.test(path))
    .flatMap((file) => {
      const name = file.path.slice("examples/".length);
      const row = list.split("\n").find((line) => line.startsWith(`| [\`${name}\`](${name}) |`));
      if (row === undefined) return [`${LIST}: no row for ${name}`];
      const needs = row.split("|").at(-2)?.trim();
      const meant = needsOf(file, files);
      return needs === meant ? [] : [`${LIST}: ${name} needs ${meant}, not ${needs}`];
    });
}

/**
 * The packages that the example imports, itself or through files beside it, and the folders of these files.
 *
 * @param {import("./source.js").File} example
 * @param {readonly import("./source.js").File[]} files
 */
function needsOf(example, files) {
  /** @type {Set<string>} */
  const packages = new Set();
  /** @type {Set<import("./source.js").File>} */
  const seen = new Set();
  /** @param {import("./source.js").File} file */
  const follow = (file) => {
    seen.add(file);
    for (const { specifier } of importsOf(file)) {
      const beside = resolveRelative(file.path, specifier);
      const next = files.find(({ path }) => path === beside);
      if (next !== undefined && !seen.has(next)) follow(next);
      else if (beside === undefined && !specifier.startsWith("node:")) packages.add(packageOf(specifier));
    }
  };
  follow(example);
  const folders = [...seen].flatMap(({ path }) => /^examples\/([\w-]+\/)/.exec(path)?.[1] ?? []);
  const needs = ["nevertwice", ...[...packages].sort(), ...folders.sort()];
  return [...new Set(needs)].map((name) => `\`${name}\``).join(", ");
}

/** @param {string} specifier */
function packageOf(specifier) {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
