/** No import cycles. Imports of types count: two files that need each other's types are one file, or lack a third. */
import { importsOf, resolveRelative, sourcesOf } from "./source.js";

/** @param {readonly import("./source.js").File[]} files */
export function cycleProblems(files) {
  const sources = sourcesOf(files);
  const imported = new Map(sources.map((file) => [file.path, targetsOf(file)]));
  /** @type {string[]} */
  const problems = [];
  /** @type {Set<string>} */
  const done = new Set();
  /** @type {string[]} */
  const trail = [];

  /** @param {string} path */
  const visit = (path) => {
    const start = trail.indexOf(path);
    if (start >= 0) problems.push(`import cycle: ${[...trail.slice(start), path].join(" → ")}`);
    if (start >= 0 || done.has(path)) return;
    trail.push(path);
    for (const target of imported.get(path) ?? []) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const { path } of sources) visit(path);
  return problems;
}

/** @param {import("./source.js").File} file */
function targetsOf(file) {
  return importsOf(file).flatMap(({ specifier }) => resolveRelative(file.path, specifier) ?? []);
}
