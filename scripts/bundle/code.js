/** Bundles the sources of the package `nevertwice`: once for Node, once for platforms without Node's modules. */
import { posix, relative } from "node:path";
import { rolldown } from "rolldown";
import { minifySync } from "rolldown/utils";
import { oneLineEach } from "./lines.js";
import { DIST, SOURCES } from "./places.js";
import { lineMap, sameLines } from "./source-map.js";

/** Drivers, frameworks and what Node has are loaded from where the application has them. */
const EXTERNAL = /^(?![./#]|[a-z]:[\\/])/i;

/**
 * What Node loads keeps its lines, to which the maps lead, and the names of its functions, which stack traces show. Shorter
 * names of variables take a tenth off the package.
 *
 * @satisfies {import("rolldown").MinifyOptions}
 */
const SHORT_NAMES = {
  compress: false,
  mangle: { keepNames: true },
  codegen: { removeWhitespace: false },
};

/**
 * @typedef {object} Format
 * @property {"cjs" | "esm"} format
 * @property {string} extension of the files
 * @property {string} platform the module behind `#platform`
 * @property {boolean} isCompact minified, and without maps
 */

/** @typedef {Readonly<Record<string, string>>} Input sources by the path of their bundle, without its extension */

/**
 * @param {Input} input
 * @param {Format} options
 * @returns {Promise<{ files: ReadonlyMap<string, string>, names: ReadonlyMap<string, readonly string[]> }>} the text of
 *   each file, and what each input exports
 */
export async function bundleCode(input, { format, extension, platform, isCompact }) {
  const options = /** @type {import("rolldown").InputOptions} */ ({
    input,
    external: (id) => EXTERNAL.test(id),
    resolve: { alias: { "#platform": `${SOURCES}platform/${platform}.ts` } },
    platform: "node",
    logLevel: "silent",
    // Comments that name each module: the maps name them too.
    experimental: { attachDebugInfo: "none" },
  });
  const graph = await readGraph(options);
  const build = await rolldown({ ...options, plugins: [namedPaths(extension)] });
  const { output } = await build.generate({
    format,
    entryFileNames: `[name].${extension}`,
    chunkFileNames: `chunks/[name].${extension}`,
    dir: DIST,
    comments: false,
    sourcemap: !isCompact,
    minify: isCompact || SHORT_NAMES,
    codeSplitting: { groups: sharedGroups(input, graph) },
  });
  await build.close();
  const texts = output.flatMap((file) => (file.type === "chunk" ? textsOf(file, isCompact) : []));
  const entries = output.filter((file) => file.type === "chunk" && file.isEntry);
  return {
    files: new Map(
      [...withRelativePaths(new Map(texts))].map(([name, text]) => [name, withLateImports(text)]),
    ),
    names: new Map(entries.map((file) => [file.name ?? "", file.type === "chunk" ? file.exports : []])),
  };
}

/**
 * The code of a chunk, and its map if it has one.
 *
 * @param {import("rolldown").OutputChunk} chunk
 * @param {boolean} isCompact
 * @returns {readonly (readonly [name: string, text: string])[]}
 */
function textsOf(chunk, isCompact) {
  const { fileName } = chunk;
  if (isKit(chunk)) return [[fileName, withoutLines(chunk)]];
  if (isCompact || chunk.map === null) return [[fileName, chunk.code]];
  const { code, map } = oneLineEach(fileName, chunk.code, lineMap(chunk.map.toString()));
  return [
    [fileName, code],
    [`${fileName}.map`, map],
  ];
}

/**
 * The published cases are a tenth of the code, and a case that fails says what is wrong: they need neither maps nor
 * whitespace.
 *
 * @param {import("rolldown").OutputChunk} chunk
 */
function isKit({ moduleIds }) {
  return moduleIds.some((id) => id.startsWith(`${SOURCES}testing/`));
}

/** @param {import("rolldown").OutputChunk} chunk */
function withoutLines({ fileName, code }) {
  const bare = code.replace(/^\/\/# sourceMappingURL=.*$/m, "");
  return minifySync(fileName, bare, { compress: true, mangle: { keepNames: true } }).code;
}

/**
 * The modules that each module imports statically.
 *
 * @param {import("rolldown").InputOptions} options
 */
async function readGraph(options) {
  /** @type {Map<string, readonly string[]>} */
  const graph = new Map();
  const record = {
    name: "graph",
    /** @param {{ id: string, importedIds: readonly string[] }} module */
    moduleParsed: ({ id, importedIds }) => void graph.set(id, [...importedIds]),
  };
  const build = await rolldown({ ...options, plugins: [record] });
  await build.generate();
  await build.close();
  return graph;
}

/**
 * Everything that the front door loads is one chunk, except for what the client in browsers shares with it. Both groups
 * have all that they import, so no two chunks import each other. The bundler splits the rest by who imports it.
 *
 * @param {Input} input
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

/** How a module names the program of a worker thread. */
const WORKER_PATH = /new URL\("(\.[^"]+)\.js", import\.meta\.url\)/g;

/**
 * What a module names by its path from its own folder may be bundled into another one, so the paths here start at `dist`.
 *
 * @param {string} extension
 */
function namedPaths(extension) {
  return {
    name: "named-paths",
    /**
     * @param {string} code
     * @param {string} id
     */
    transform(code, id) {
      if (code.search(WORKER_PATH) < 0) return null;
      const changed = code.replace(WORKER_PATH, (_, path) => {
        const fromDist = posix.join(posix.dirname(relative(SOURCES, id)), path);
        return `new URL("dist:${fromDist}.${extension}", import.meta.url)`;
      });
      return { code: changed, map: sameLines(code, id) };
    },
  };
}

/** Such a path in the output: of an ES module, or of CommonJS. */
const PATH_FROM_DIST =
  /new URL\("dist:([^"]+)", ?(?:import\.meta\.url|(require\("url"\)\.pathToFileURL\(__filename\)\.href))\)/g;

/**
 * In CommonJS the path is joined to `__dirname`, in the form that bundlers read: Turbopack takes a URL that is made of
 * `__filename` for any file of the folder, declarations among them, and fails.
 *
 * @param {ReadonlyMap<string, string>} files
 * @returns {ReadonlyMap<string, string>} with such paths written as seen from each file
 */
export function withRelativePaths(files) {
  const rewrite = (/** @type {string} */ name, /** @type {string} */ text) =>
    text.replace(PATH_FROM_DIST, (_, path, isCommonJs) => {
      if (!files.has(path)) throw new Error(`${name} names ${path}, which is not in the bundle`);
      const relativePath = posix.relative(posix.dirname(name), path);
      if (isCommonJs) return `require("node:path").join(__dirname, "${relativePath}")`;
      return `new URL("${relativePath.startsWith(".") ? relativePath : `./${relativePath}`}", import.meta.url)`;
    });
  return new Map([...files].map(([name, text]) => [name, rewrite(name, text)]));
}

/**
 * An import whose module is named at run time is a driver or a file of the application. webpack would replace it by a table
 * without entries, and looks for this comment in it. The bundler here drops comments, so they are written afterwards.
 *
 * @param {string} text
 */
export function withLateImports(text) {
  return text.replace(/\bimport\((?=[\w$]+\))/g, "import(/* webpackIgnore: true */ ");
}
