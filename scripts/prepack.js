/**
 * Runs before a package is packed, in its folder: builds, removes files that an earlier build left behind, fixes the
 * imports in declarations, and adds LICENSE and README. A package without its own README gets the one of the root. Links
 * in the README become absolute. With `--restore`, after packing, it brings the package's own README back. It prints
 * nothing unless it fails, since tools read the output of `npm pack`.
 */
import { access, copyFile, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT, run } from "./command.js";

/** For each package: the files in `dist` that the compiler did not make, and whether the package has its own README. */
const PACKAGES = {
  // What an earlier build left behind is removed by the bundle.
  nevertwice: { others: /^/, hasReadme: false },
  server: { others: /^dashboard/, hasReadme: true },
};

/** The package's own README, kept here while the tarball gets one with absolute links. */
const OWN_README = ".readme-source.md";

/** @param {keyof typeof PACKAGES} name the folder of the package */
async function prepack(name) {
  const home = `${ROOT}packages/${name}/`;
  const { code, output } = await run("npm", ["run", "--silent", "build"]);
  if (code !== 0) throw new Error(output);
  await removeLeftovers(home, PACKAGES[name]);
  await rewriteDeclarations(home);
  await copyFile(`${ROOT}LICENSE`, `${home}LICENSE`);
  const { version, repository } = JSON.parse(await readFile(`${home}package.json`, "utf8"));
  const page = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
  const folder = PACKAGES[name].hasReadme ? repository.directory : "";
  const readme = PACKAGES[name].hasReadme
    ? await takeOwnReadme(home)
    : await readFile(`${ROOT}README.md`, "utf8");
  await writeFile(`${home}README.md`, withAbsoluteLinks(readme, { page, tag: `v${version}`, folder }));
}

/**
 * If packing was interrupted before, the source is still set aside.
 *
 * @param {string} home
 */
async function takeOwnReadme(home) {
  if (!(await exists(`${home}${OWN_README}`))) await rename(`${home}README.md`, `${home}${OWN_README}`);
  return readFile(`${home}${OWN_README}`, "utf8");
}

/** @param {string} home */
async function restoreOwnReadme(home) {
  if (await exists(`${home}${OWN_README}`)) await rename(`${home}${OWN_README}`, `${home}README.md`);
}

/** @param {string} path */
function exists(path) {
  return access(path).then(
    () => true,
    () => false,
  );
}

/**
 * The compiler does not remove the output of a source that was renamed.
 *
 * @param {string} home
 * @param {{ others: RegExp }} options
 */
async function removeLeftovers(home, { others }) {
  for (const path of await readdir(`${home}dist`, { recursive: true })) {
    const source = /^(.+?)(\.d\.ts|\.js)(\.map)?$/.exec(path)?.[1];
    if (source === undefined || others.test(path)) continue;
    if (!(await exists(`${home}${source}.ts`))) await rm(`${home}dist/${path}`);
  }
}

/** @param {string} home */
async function rewriteDeclarations(home) {
  for (const path of await readdir(`${home}dist`, { recursive: true })) {
    if (!path.endsWith(".d.ts")) continue;
    const declarations = await readFile(`${home}dist/${path}`, "utf8");
    await writeFile(`${home}dist/${path}`, withBuiltExtensions(declarations));
  }
}

/**
 * The compiler rewrites the extension of an import in code but not in declarations. Its own resolver finds
 * `./store.d.ts` for `./store.ts`, but Deno's does not.
 *
 * @param {string} declarations
 */
export function withBuiltExtensions(declarations) {
  return declarations.replace(/(\bfrom |\bimport |\bimport\()"(\.{1,2}\/[^"]+)\.ts"/g, '$1"$2.js"');
}

/**
 * On the page of the package on npm, a relative link of the repository leads nowhere.
 *
 * @param {string} markdown
 * @param {{ page: string, tag: string, folder: string }} repository its page, and the folder of the README in it
 */
export function withAbsoluteLinks(markdown, { page, tag, folder }) {
  return markdown.replace(/(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)/gi, (_, bang, label, path) => {
    const kind = bang === "!" ? "raw" : "blob";
    return `${bang}${label}(${page}/${kind}/${tag}/${posix.join(folder, path)})`;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const name = /** @type {keyof typeof PACKAGES} */ (basename(process.cwd()));
  if (process.argv.includes("--restore")) await restoreOwnReadme(`${ROOT}packages/${name}/`);
  else await prepack(name);
}
