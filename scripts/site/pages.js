/** Reads the pages of the site from the repository. */
import { readdir, readFile } from "node:fs/promises";
import { ROOT } from "../command.js";
import { relativeLink, rewriteLinks, SITE, siteFile } from "./addresses.js";

/**
 * A page: its path in the repository, its file on the site, and its text as the repository has it. A generated page has no
 * text in the repository, and its links are those of the site already.
 *
 * @typedef {{ path: string, file: string, markdown: string, isGenerated?: true }} Page
 */

const FOLDERS = ["docs/", "bench/results/"];
const SINGLE = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md"];

/** @returns {Promise<readonly Page[]>} */
export async function repositoryPages() {
  const found = await Promise.all(
    FOLDERS.map(async (folder) =>
      (await readdir(ROOT + folder)).filter((name) => name.endsWith(".md")).map((name) => folder + name),
    ),
  );
  const paths = [...found.flat(), ...SINGLE].sort();
  return Promise.all(paths.map(async (path) => toPage(path, await readFile(ROOT + path, "utf8"))));
}

/**
 * @param {string} path
 * @param {string} markdown
 * @returns {Page}
 */
export function toPage(path, markdown) {
  const file = siteFile(path);
  if (file === undefined) throw new Error(`the site has no place for ${path}`);
  return { path, file, markdown };
}

/**
 * The text from which VitePress makes the page.
 *
 * @param {Page} page
 * @param {readonly Page[]} pages
 */
export function siteMarkdown(page, pages) {
  if (page.isGenerated) return page.markdown;
  const shown = new Set(pages.map(({ file }) => file));
  return rewriteLinks(page.path, page.markdown, (target, anchor) => {
    const file = siteFile(target);
    return file !== undefined && shown.has(file) ? relativeLink(page.file, file) + anchor : undefined;
  });
}

/**
 * The Markdown twin of a page, which programs read: its links are whole addresses, of twins where there is one.
 *
 * @param {Page} page
 * @param {readonly Page[]} pages
 */
export function twinMarkdown(page, pages) {
  const shown = new Set(pages.map(({ file }) => file));
  const path = page.isGenerated ? `docs/${page.file}` : page.path;
  const linked = rewriteLinks(path, page.markdown, (target, anchor) => {
    const file = siteFile(target);
    return file !== undefined && shown.has(file) ? SITE + file + anchor : undefined;
  });
  return linked.replace(/\]\((images\/[^)\s]+)\)/g, (_, image) => `](${SITE}${image})`);
}

/** @param {string} markdown */
export function titleOf(markdown) {
  return (/^# (.+)$/m.exec(markdown)?.[1] ?? "").replaceAll("`", "");
}

/**
 * The first sentence after the title, without markup.
 *
 * @param {string} markdown
 */
export function summaryOf(markdown) {
  const text = markdown
    .replace(/^---\n[\s\S]*?\n---\n/, "")
    .replace(/^# .+$/m, "")
    .trim();
  const paragraph = text.split(/\n\s*\n/).find((block) => /^[A-Z`*[]/.test(block)) ?? "";
  const plain = paragraph
    .replace(/\s+/g, " ")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\*\*/g, "");
  return /^.*?[.:](?=\s|$)/.exec(plain)?.[0].replace(/:$/, ".") ?? plain;
}
