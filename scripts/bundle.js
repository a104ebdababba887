/**
 * Writes the package `nevertwice` to its `dist`: one file per subpath, and chunks of what several of them share. Node
 * opens, reads and links every module by itself, so the same code in a few files is loaded sooner than in eighty modules.
 * The compiler's own output, with one file per module, stays in `build`, where tests change single modules.
 *
 * On Node the code is CommonJS, and the ES modules only name what it exports: an application that imports the package and
 * also requires it, itself or by a dependency, has one copy. Platforms without Node's modules get ES modules in `dist/web`.
 */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { bundleCode } from "./bundle/code.js";
import { commonjsDeclarations, moduleDeclaration, pathBetween } from "./bundle/declarations.js";
import { DIST, HOME, SOURCES } from "./bundle/places.js";

/** They run in worker threads, which open them by their path. */
const WORKERS = ["stores/sqlite/worker", "reservations/sqlite/worker", "outbox/sqlite/worker"];

/** The folder of what runs without Node's modules. */
const WEB = "web/";

async function bundle() {
  const { exports } = JSON.parse(await readFile(`${HOME}package.json`, "utf8"));
  const { node, web } = subpathsOf(exports);
  const nodeCode = await bundleCode(inputs([...node, ...WORKERS]), {
    format: "cjs",
    extension: "cjs",
    platform: "node",
    isCompact: false,
  });
  // Bundlers read these. They make their own maps.
  const webCode = await bundleCode(inputs(web), {
    format: "esm",
    extension: "js",
    platform: "web",
    isCompact: true,
  });
  await writeFiles(
    new Map([
      ...nodeCode.files,
      ...node.map((name) => reexport(name, nodeCode.names.get(name) ?? [])),
      ...[...webCode.files].map(([name, text]) => /** @type {const} */ ([`${WEB}${name}`, text])),
      ...(await commonjsDeclarations(node)),
      ...node.map((name) => moduleDeclaration(name, name)),
      ...web.map((name) => moduleDeclaration(`${WEB}${name}`, name)),
    ]),
  );
}

/**
 * The sources of the subpaths without extension: of all of them, and of those that run without Node's modules.
 *
 * @param {Readonly<Record<string, string | Readonly<Record<string, string>>>>} exports
 */
export function subpathsOf(exports) {
  const targets = Object.values(exports).flatMap((target) => (typeof target === "string" ? [] : [target]));
  const names = (/** @type {string} */ condition, /** @type {string} */ folder) =>
    targets.flatMap(({ [condition]: target }) =>
      target === undefined ? [] : [target.slice(`./dist/${folder}`.length).replace(/\.c?js$/, "")],
    );
  return { node: names("require", ""), web: names("workerd", WEB) };
}

/** @param {readonly string[]} names */
function inputs(names) {
  return Object.fromEntries(names.map((name) => [name, `${SOURCES}${name}.ts`]));
}

/**
 * @param {string} name
 * @param {readonly string[]} exported
 */
function reexport(name, exported) {
  return /** @type {const} */ ([
    `${name}.js`,
    `export { ${exported.join(", ")} } from "${pathBetween(name, name)}.cjs";\n`,
  ]);
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
