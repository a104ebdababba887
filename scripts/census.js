/** `npm run census`: counts how easy the repository is to read. It fails nothing; compare its counts before and after a change. */
import { pathToFileURL } from "node:url";
import { functionNames } from "./tidy/function-names.js";
import { proseProblems } from "./tidy/prose.js";
import { allSourcesOf } from "./tidy/source.js";
import { placeOf } from "./tidy/test-places.js";
import { declaredTypes } from "./tidy/type-names.js";
import { repositoryFiles } from "./tidy.js";

/** @typedef {import("./tidy/source.js").File} File */

const STORES = ["dynamodb", "etcd", "memory", "mysql", "postgres", "redis", "sqlite", "upstash"];
const RUN_LINES = 6;
const STORE_FOLDER = "packages/nevertwice/src/stores/";

/**
 * Each row is a name and a count, as text.
 *
 * @param {readonly File[]} files
 * @returns {readonly (readonly [name: string, count: string])[]}
 */
export function census(files) {
  const sources = allSourcesOf(files);
  const docs = files.filter(({ path }) => /^(?:docs\/)?[^/]+\.md$/.test(path));
  const functions = functionNames(files);
  const types = [...declaredTypes(files)].filter(([, paths]) => paths.length > 1);
  const readme = files.find(({ path }) => path === "README.md")?.text ?? "";
  return [
    ['"whoever" in src', String(occurrences(sources))],
    ['"whoever" in docs', String(occurrences(docs))],
    ["refused words in all prose", String(proseProblems(files).length)],
    [
      "functions ending in Of",
      `${functions.filter((name) => name.endsWith("Of")).length} of ${functions.length}`,
    ],
    ["type names with several meanings", String(types.length)],
    ["files called settings.ts", String(sources.filter(({ path }) => path.endsWith("/settings.ts")).length)],
    ...STORES.map((store) => /** @type {const} */ ([`files of ${store}`, String(filesOf(store, sources))])),
    ["lines of src", String(linesOf(sources))],
    ["lines of tests", String(linesOf(files.filter(({ path }) => /^packages\/[^/]+\/test\//.test(path))))],
    ["lines of scripts and bench", String(linesOf(files.filter(isTool)))],
    ["repeated runs of six lines", String(repeatedRuns(files))],
    ["lines of README", String(linesOf([{ path: "", text: readme }]))],
    ["words of README", String(readme.split(/\s+/).filter(Boolean).length)],
    ["test files", placesOf(files)],
  ];
}

/** @param {readonly File[]} files */
function occurrences(files) {
  return files.reduce((sum, { text }) => sum + (text.match(/\bwhoever\b/gi)?.length ?? 0), 0);
}

/** @param {readonly File[]} files */
function linesOf(files) {
  return files.reduce((sum, { text }) => sum + text.replace(/\n$/, "").split("\n").length, 0);
}

/** @param {File} file */
function isTool({ path }) {
  return /^(?:scripts|bench)\/.*\.js$/.test(path);
}

/**
 * The runs of six lines of code that stand in more than one place. Indentation, comments, imports and lines without words
 * do not count.
 *
 * @param {readonly File[]} files
 */
function repeatedRuns(files) {
  /** @type {Map<string, number>} */
  const places = new Map();
  for (const { text } of files.filter(({ path }) => /\.[jt]sx?$/.test(path))) {
    const lines = text.split("\n").map((line) => line.trim());
    const code = lines.filter((line) => /\w/.test(line) && !/^(?:\*|\/[/*]|import\b)/.test(line));
    for (let start = 0; start + RUN_LINES <= code.length; start++) {
      const run = code.slice(start, start + RUN_LINES).join("\n");
      places.set(run, (places.get(run) ?? 0) + 1);
    }
  }
  return [...places.values()].filter((count) => count > 1).length;
}

/**
 * The store's own files: `x.ts`, `x-….ts` and those in `x/`.
 *
 * @param {string} store
 * @param {readonly File[]} sources
 */
function filesOf(store, sources) {
  const own = new RegExp(`^${STORE_FOLDER}${store}(?:\\.ts$|-[^/]*\\.ts$|/)`);
  return sources.filter(({ path }) => own.test(path)).length;
}

/** @param {readonly File[]} files */
function placesOf(files) {
  const paths = new Set(files.map(({ path }) => path));
  const places = files.flatMap(({ path, text }) => placeOf(path, text, paths) ?? []);
  const count = (/** @type {string} */ place) => places.filter((each) => each === place).length;
  return `${places.length}: ${count("mirrors")} mirror a source, ${count("says")} say what they test, ${count("nowhere")} do neither`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  for (const [name, count] of census(await repositoryFiles())) console.log(`${name.padEnd(34)} ${count}`);
