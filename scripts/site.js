/**
 * `npm run docs` builds the site into `.cache/site`: the pages of `docs/`, the reference of the library and of the HTTP API, a
 * Markdown twin of each page, and `llms.txt`. `--serve` then serves it on this machine. Needs the build of both packages.
 */
import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { ROOT, run } from "./command.js";
import { BASE } from "./site/addresses.js";
import { apiPages } from "./site/api-reference.js";
import { withOpening } from "./site/first-page.js";
import { llmsFullText, llmsText } from "./site/for-agents.js";
import { httpApiMarkdown } from "./site/http-api.js";
import { repositoryPages, siteMarkdown, titleOf, toPage, twinMarkdown } from "./site/pages.js";
import { FIRST_PAGE, HTTP_API_PAGE, shownSections } from "./site/sections.js";
import { serveFolder } from "./site/serve.js";
import { installTools } from "./site/tools.js";

const STAGED = `${ROOT}site/.cache/pages/`;
const BUILT = `${ROOT}.cache/site/`;
const PORT = 4748;

/** @typedef {import("./site/pages.js").Page} Page */

/** Builds the site and returns its folder. */
export async function buildSite() {
  await installTools();
  const api = await apiPages(`${ROOT}site/.cache/api`);
  const pages = [...(await repositoryPages()), await httpApiPage(), ...api];
  const sections = shownSections(new Set(pages.map(({ path }) => path)));
  await stage(pages, sections);
  const { code, output } = await run(
    process.execPath,
    [`${ROOT}site/node_modules/vitepress/bin/vitepress.js`, "build", `${ROOT}site`],
    { cwd: `${ROOT}site` },
  );
  if (code !== 0) throw new Error(`VitePress cannot build the site:\n${output.trim()}`);
  await Promise.all(pages.map((page) => write(BUILT + page.file, twinMarkdown(page, pages))));
  await write(`${BUILT}llms.txt`, llmsText(sections, pages));
  await write(`${BUILT}llms-full.txt`, llmsFullText(sections, pages));
  await cp(`${ROOT}docs/images`, `${BUILT}images`, { recursive: true });
  return BUILT;
}

/**
 * Writes what VitePress reads.
 *
 * @param {readonly Page[]} pages
 * @param {readonly import("./site/sections.js").Section[]} sections
 */
async function stage(pages, sections) {
  await rm(STAGED, { recursive: true, force: true });
  await Promise.all(
    pages.map((page) => {
      const markdown = siteMarkdown(page, pages);
      return write(
        STAGED + page.file,
        page.path === FIRST_PAGE ? withOpening(markdown) : withEditLink(page, markdown),
      );
    }),
  );
  await cp(`${ROOT}docs/images`, `${STAGED}images`, { recursive: true });
  await cp(`${ROOT}site/public`, `${STAGED}public`, { recursive: true });
  const apiPages = pages.flatMap(({ path, file, markdown }) =>
    path.startsWith("docs/api/") ? [{ title: titleOf(markdown), file }] : [],
  );
  await write(`${STAGED}sections.json`, JSON.stringify({ sections, apiPages }));
}

/**
 * The site knows where a page of `docs/` is edited; other pages get no such link.
 *
 * @param {Page} page
 * @param {string} markdown
 */
function withEditLink({ path, file, isGenerated }, markdown) {
  return path === `docs/${file}` && !isGenerated ? markdown : `---\neditLink: false\n---\n\n${markdown}`;
}

/** @returns {Promise<Page>} */
async function httpApiPage() {
  const { createServer } = await import("../packages/server/dist/src/server.js");
  const server = await createServer({ store: "memory:", logLevel: "silent" });
  try {
    const answer = await server.app.inject({ url: "/openapi.json" });
    return { ...toPage(HTTP_API_PAGE, httpApiMarkdown(answer.json())), isGenerated: true };
  } finally {
    await server.close();
  }
}

/**
 * @param {string} path
 * @param {string} text
 */
async function write(path, text) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { values } = parseArgs({ options: { serve: { type: "boolean", default: false } } });
  console.log(`built ${await buildSite()}`);
  if (values.serve) {
    const { url } = await serveFolder(BUILT, { base: BASE, port: PORT });
    console.log(`serving ${url}`);
  }
}
