/**
 * Runs before a package is packed, in its folder: builds, removes what an earlier build left behind, makes the declarations name what
 * is there, and brings README and LICENSE from the root. Prints nothing unless it fails, since tools read what
 * `npm pack` prints.
 */
import { access, copyFile, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT, run } from "./command.js";

/** Where the sources of what is in `dist` are, and which of it the compiler did not make. */
const SOURCES = {
  nevertwice: { folder: "src/", others: /^$/ },
  server: { folder: "", others: /^dashboard/ },
};

/** @param {keyof typeof SOURCES} name the folder of the package */
async function prepack(name) {
  const home = `${ROOT}packages/${name}/`;
  const { code, output } = await run("npm", ["run", "--silent", "build"]);
  if (code !== 0) throw new Error(output);
  await removeLeftovers(home, SOURCES[name]);
  await rewriteDeclarations(home);
  await copyFile(`${ROOT}LICENSE`, `${home}LICENSE`);
  const { version, repository } = JSON.parse(await readFile(`${home}package.json`, "utf8"));
  const page = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
  const readme = await readFile(`${ROOT}README.md`, "utf8");
  await writeFile(`${home}README.md`, withAbsoluteLinks(readme, page, `v${version}`));
}

/**
 * The compiler does not remove the output of a source that was renamed.
 *
 * @param {string} home
 * @param {{ folder: string, others: RegExp }} sources
 */
async function removeLeftovers(home, { folder, others }) {
  for (const path of await readdir(`${home}dist`, { recursive: true })) {
    const source = /^(.+?)(\.d\.ts|\.js)(\.map)?$/.exec(path)?.[1];
    if (source === undefined || others.test(path)) continue;
    const isLeftover = await access(`${home}${folder}${source}.ts`).then(
      () => false,
      () => true,
    );
    if (isLeftover) await rm(`${home}dist/${path}`);
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
 * The compiler rewrites the extension of an import in code but not in declarations, where only its own resolver finds
 * `./store.d.ts` behind `./store.ts`; Deno's does not.
 *
 * @param {string} declarations
 */
export function withBuiltExtensions(declarations) {
  return declarations.replace(/(\bfrom |\bimport |\bimport\()"(\.{1,2}\/[^"]+)\.ts"/g, '$1"$2.js"');
}

/**
 * The package's page is not the repository: a link that is relative there leads nowhere.
 *
 * @param {string} markdown
 * @param {string} home
 * @param {string} tag
 */
export function withAbsoluteLinks(markdown, home, tag) {
  return markdown.replace(/(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)/gi, (_, bang, label, path) => {
    const kind = bang === "!" ? "raw" : "blob";
    return `${bang}${label}(${home}/${kind}/${tag}/${path.replace(/^\.\//, "")})`;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  await prepack(/** @type {keyof typeof SOURCES} */ (basename(process.cwd())));
