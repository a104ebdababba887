/**
 * Runs before the package is packed: builds, removes what an earlier build left behind, makes the declarations name what
 * is there, and brings README and LICENSE from the root. Prints nothing unless it fails, since tools read what
 * `npm pack` prints.
 */
import { access, copyFile, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { ROOT, runTool } from "./command.js";

const PACKAGE = `${ROOT}packages/nevertwice/`;

async function prepack() {
  const { code, output } = await runTool("typescript/bin/tsc", ["-b", "packages/nevertwice"]);
  if (code !== 0) throw new Error(output);
  await removeLeftovers();
  await rewriteDeclarations();
  await copyFile(`${ROOT}LICENSE`, `${PACKAGE}LICENSE`);
  const { version, repository } = JSON.parse(await readFile(`${PACKAGE}package.json`, "utf8"));
  const home = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
  const readme = await readFile(`${ROOT}README.md`, "utf8");
  await writeFile(`${PACKAGE}README.md`, withAbsoluteLinks(readme, home, `v${version}`));
}

/** The compiler does not remove the output of a source that was renamed. */
async function removeLeftovers() {
  for (const path of await readdir(`${PACKAGE}dist`, { recursive: true })) {
    const source = /^(.+?)(\.d\.ts|\.js)(\.map)?$/.exec(path)?.[1];
    if (source === undefined) continue;
    const isLeftover = await access(`${PACKAGE}src/${source}.ts`).then(
      () => false,
      () => true,
    );
    if (isLeftover) await rm(`${PACKAGE}dist/${path}`);
  }
}

async function rewriteDeclarations() {
  for (const path of await readdir(`${PACKAGE}dist`, { recursive: true })) {
    if (!path.endsWith(".d.ts")) continue;
    const declarations = await readFile(`${PACKAGE}dist/${path}`, "utf8");
    await writeFile(`${PACKAGE}dist/${path}`, withBuiltExtensions(declarations));
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

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await prepack();
