/** Makes the reference of the library from the doc comments of what users import, with TypeDoc. */
import { readdir, readFile, rm } from "node:fs/promises";
import { ROOT } from "../command.js";
import { titleOf } from "./pages.js";
import { importTool } from "./tools.js";

const IMPORTS = "api/imports.md";
const PACKAGE = `${ROOT}packages/nevertwice`;

/**
 * @param {string} folder gets one page for each subpath
 * @returns {Promise<readonly import("./pages.js").Page[]>}
 */
export async function apiPages(folder) {
  await rm(folder, { recursive: true, force: true });
  const doors = await doorsOfPackage();
  const { Application } = await importTool("typedoc");
  const app = await Application.bootstrapWithPlugins({
    entryPoints: doors.map(({ source }) => source),
    tsconfig: `${PACKAGE}/tsconfig.json`,
    plugin: [`${ROOT}site/node_modules/typedoc-plugin-markdown/dist/index.js`],
    outputs: [{ name: "markdown", path: folder }],
    name: "nevertwice",
    readme: "none",
    disableSources: true,
    excludeInternal: true,
    excludePrivate: true,
    skipErrorChecking: true,
    validation: false,
    logLevel: "Error",
    router: "module",
    entryFileName: "imports",
    fileExtension: ".md",
    hideBreadcrumbs: true,
    hidePageHeader: true,
    groupOrder: ["Functions", "Variables", "Interfaces", "Type Aliases", "*"],
    useCodeBlocks: true,
    parametersFormat: "table",
    interfacePropertiesFormat: "table",
    typeDeclarationFormat: "table",
    propertyMembersFormat: "table",
  });
  const project = await app.convert();
  if (project === undefined) throw new Error("TypeDoc cannot read the package");
  await app.generateOutputs(project);
  return readPages(folder, doors);
}

/** The subpaths that users import, each with its source. */
async function doorsOfPackage() {
  const manifest = JSON.parse(await readFile(`${PACKAGE}/package.json`, "utf8"));
  return Object.entries(manifest.exports).flatMap(([subpath, targets]) => {
    const built = typeof targets === "object" && targets !== null ? targets.require : undefined;
    if (typeof built !== "string") return [];
    const inside = built.replace(/^\.\/dist\//, "").replace(/\.cjs$/, "");
    return [{ name: `nevertwice${subpath.slice(1)}`, inside, source: `${PACKAGE}/src/${inside}.ts` }];
  });
}

/**
 * @param {string} folder
 * @param {readonly { name: string, inside: string }[]} doors
 */
async function readPages(folder, doors) {
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".md"));
  const read = files.sort().map(async (file) => {
    const markdown = await readFile(`${folder}/${file}`, "utf8");
    const place = file.replaceAll("\\", "/");
    return /** @type {const} */ ({
      path: `docs/api/${place}`,
      file: `api/${place}`,
      markdown: titled(place, markdown, doors),
      isGenerated: true,
    });
  });
  const pages = await Promise.all(read);
  const list = importsText(pages.filter(({ file }) => file !== IMPORTS));
  return pages.map((page) => (page.file === IMPORTS ? { ...page, markdown: list } : page));
}

/**
 * The first page of the reference: every import with the functions that it has.
 *
 * @param {readonly import("./pages.js").Page[]} pages
 */
function importsText(pages) {
  const rows = pages
    .map(({ file, markdown }) => ({ file, title: titleOf(markdown), functions: functionsOf(markdown) }))
    .sort((a, b) => a.title.localeCompare(b.title))
    .map(({ file, title, functions }) => `| [\`${title}\`](./${file.slice("api/".length)}) | ${functions} |`);
  return `# API of the library\n\nEvery import, with its functions. The pages are made from the doc comments, which your editor shows too.\n\n| import | functions |\n| --- | --- |\n${rows.join("\n")}\n`;
}

/** @param {string} markdown */
function functionsOf(markdown) {
  const names = [...markdown.matchAll(/^### ([a-z]\w*)\(\)$/gm)].map(([, name]) => `\`${name}\``);
  return [...new Set(names)].join(", ");
}

/**
 * TypeDoc names a page after its source file; its title is what users import.
 *
 * @param {string} file
 * @param {string} markdown
 * @param {readonly { name: string, inside: string }[]} doors
 */
function titled(file, markdown, doors) {
  const inside = file.replace(/\.md$/, "");
  const door = doors.find((each) => each.inside === inside || each.inside === `${inside}/index`);
  return markdown.replace(/^# .*$/m, `# ${door?.name ?? inside}`);
}
