/**
 * Writes the JavaScript of the package `nevertwice` to its `dist`: one file per subpath, and chunks of what several of
 * them share. Node opens, reads and links every module by itself, so the same code in a few files is imported sooner
 * than in eighty modules. The declarations are those that the compiler wrote to `build`, with one file per module, where
 * tests change single modules.
 */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, posix, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import { ROOT } from "./command.js";

const HOME = `${ROOT}packages/nevertwice/`;
const SOURCES = `${HOME}src/`;
const BUILD = `${HOME}build/`;
const DIST = `${HOME}dist/`;

/** They run in worker threads, which open them by their path. */
const WORKERS = ["stores/sqlite/worker", "reservations/sqlite/worker", "outbox/sqlite/worker"];

/** One for each kind of platform: the conditions of `#platform` in the package's imports choose between them. */
const PLATFORMS = ["platform/node", "platform/web"];

/** Drivers, frameworks and what Node has are loaded from where the application has them. */
const EXTERNAL = /^(?![./]|[a-z]:[\\/])/i;

async function bundle() {
  const { exports } = JSON.parse(await readFile(`${HOME}package.json`, "utf8"));
  const input = inputs(exports);
  const graph = await readGraph(input);
  const build = await rolldown({
    input,
    external: isExternal,
    platform: "node",
    logLevel: "silent",
    plugins: [namedPaths],
  });
  const { output } = await build.generate({
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name].js",
    comments: false,
    sourcemap: true,
    codeSplitting: { groups: sharedGroups(input, graph) },
  });
  await build.close();
  const files = new Map(
    output.map((file) => [file.fileName, file.type === "chunk" ? file.code : smallMap(file.source)]),
  );
  await writeFiles(new Map([...withRelativePaths(files), ...(await declarations())]));
}

/**
 * The source of each subpath by the path of its file in `dist`.
 *
 * @param {Readonly<Record<string, string>>} exports
 */
export function inputs(exports) {
  const targets = Object.values(exports).filter((target) => target.endsWith(".js"));
  const names = [
    ...targets.map((target) => target.slice("./dist/".length, -".js".length)),
    ...PLATFORMS,
    ...WORKERS,
  ];
  return Object.fromEntries(names.map((name) => [name, `${SOURCES}${name}.ts`]));
}

/** @param {string} id */
function isExternal(id) {
  return EXTERNAL.test(id);
}

/**
 * The modules that each module imports statically.
 *
 * @param {Readonly<Record<string, string>>} input
 */
async function readGraph(input) {
  /** @type {Map<string, readonly string[]>} */
  const graph = new Map();
  const record = {
    name: "graph",
    /** @param {{ id: string, importedIds: readonly string[] }} module */
    moduleParsed: ({ id, importedIds }) => void graph.set(id, [...importedIds]),
  };
  const build = await rolldown({
    input,
    external: isExternal,
    platform: "node",
    logLevel: "silent",
    plugins: [record],
  });
  await build.generate();
  await build.close();
  return graph;
}

/**
 * Everything that the front door loads is one chunk, except for what the client in browsers shares with it. Both groups
 * have all that they import, so no two chunks import each other. The bundler splits the rest by who imports it.
 *
 * @param {Readonly<Record<string, string>>} input
 * @param {ReadonlyMap<string, readonly string[]>} graph
 */
function sharedGroups(input, graph) {
  const client = reachable(graph, input["client/index"] ?? "");
  const guard = reachable(graph, input.index ?? "");
  const entries = new Set(Object.values(input));
  const others = Object.values(input).filter((id) => id !== input["client/index"]);
  const elsewhere = new Set(others.flatMap((id) => [...reachable(graph, id)]));
  return [
    {
      name: "base",
      priority: 2,
      test: (/** @type {string} */ id) => client.has(id) && elsewhere.has(id) && !entries.has(id),
    },
    {
      name: "guard",
      priority: 1,
      test: (/** @type {string} */ id) => guard.has(id) && !entries.has(id),
    },
  ];
}

/**
 * @param {ReadonlyMap<string, readonly string[]>} graph
 * @param {string} from
 */
function reachable(graph, from) {
  const found = new Set([from]);
  for (const id of found) for (const next of graph.get(id) ?? []) if (graph.has(next)) found.add(next);
  return found;
}

/** What a module names by its path from its own folder may be bundled into another one, so the paths here start at `dist`. */
const namedPaths = {
  name: "named-paths",
  /**
   * @param {string} code
   * @param {string} id
   */
  transform: (code, id) =>
    code.replace(
      /new URL\("(\.[^"]+)", import\.meta\.url\)/g,
      (_, path) =>
        `new URL("dist:${posix.join(posix.dirname(relative(SOURCES, id)), path)}", import.meta.url)`,
    ),
};

/**
 * @param {ReadonlyMap<string, string>} files
 * @returns {ReadonlyMap<string, string>} with such paths written as seen from each file
 */
export function withRelativePaths(files) {
  const rewrite = (/** @type {string} */ name, /** @type {string} */ text) =>
    text.replace(/new URL\("dist:([^"]+)"/g, (_, path) => {
      if (!files.has(path)) throw new Error(`${name} names ${path}, which is not in the bundle`);
      const relativePath = posix.relative(posix.dirname(name), path);
      return `new URL("${relativePath.startsWith(".") ? relativePath : `./${relativePath}`}"`;
    });
  return new Map([...files].map(([name, text]) => [name, rewrite(name, text)]));
}

/**
 * Without the text of the sources, which would more than double the package. Stack traces still name file and line.
 *
 * @param {string | Uint8Array} text
 */
function smallMap(text) {
  const { sourcesContent: _, ...map } = JSON.parse(String(text));
  return JSON.stringify(map);
}

/** A declaration whose source is gone is of an earlier build. */
async function declarations() {
  const sources = await readdir(SOURCES, { recursive: true });
  const names = sources.filter((name) => name.endsWith(".ts")).map((name) => name.replace(/\.ts$/, ".d.ts"));
  return Promise.all(
    names.map(
      async (name) => /** @type {const} */ ([slashed(name), await readFile(`${BUILD}${name}`, "utf8")]),
    ),
  );
}

/**
 * Everything else in `dist` is of an earlier build. A file with the same text is left alone, so that the compiler need
 * not read it again.
 *
 * @param {ReadonlyMap<string, string>} files
 */
async function writeFiles(files) {
  for (const [name, text] of files) {
    const path = `${DIST}${name}`;
    if ((await readFile(path, "utf8").catch(() => undefined)) === text) continue;
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  for (const entry of await readdir(DIST, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(slashed(relative(DIST, path)))) await rm(path);
  }
}

/** @param {string} path */
function slashed(path) {
  return path.replaceAll("\\", "/");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await bundle();
