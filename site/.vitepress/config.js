// The site: VitePress over the pages that `npm run docs` has put into `site/.cache/pages`.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";
import { BASE, REPOSITORY, SITE, siteFile } from "../../scripts/site/addresses.js";
import { anchorOf } from "../../scripts/tidy/links.js";

const PAGES = fileURLToPath(new URL("../.cache/pages/", import.meta.url));
const { sections, apiPages } = JSON.parse(readFileSync(`${PAGES}sections.json`, "utf8"));

const addressOf = (file) => `/${file.replace(/\.md$/, "").replace(/(^|\/)index$/, "$1")}`;

const groups = sections.map(({ text, entries }) => ({
  text,
  items: entries.map((entry) => ({ text: entry.text, link: addressOf(siteFile(entry.page)) })),
}));

/** A heading that is a link opens its first page. Otherwise VitePress nests a button in a button, which screen readers cannot reach. */
function openedAt(items) {
  return { link: items[0].link, items };
}

/** `Guides: HTTP` is the part `HTTP` of the section `Guides`, and is shown closed, as every section after the first. */
const sidebar = groups.flatMap(({ text, items }, index) => {
  const [section] = text.split(": ");
  const isPart = section !== text;
  if (!isPart) return [{ ...openedAt(items), text, ...(index > 0 && { collapsed: true }) }];
  const parts = groups.filter((group) => group.text.startsWith(`${section}: `));
  if (parts[0]?.text !== text) return [];
  return [
    {
      text: section,
      link: parts[0].items[0].link,
      items: parts.map((part) => ({
        ...openedAt(part.items),
        text: part.text.slice(section.length + 2),
        collapsed: true,
      })),
    },
  ];
});

/** Shows an SVG as part of the page, so that its colours follow the theme of the site and not of the system. */
function drawPictures(md) {
  const image = md.renderer.rules.image;
  md.renderer.rules.image = (tokens, index, options, env, self) => {
    const token = tokens[index];
    const source = token.attrGet("src") ?? "";
    const file = `${PAGES}${source.replace(/^(\.\/|\.\.\/)*/, "")}`;
    if (!source.endsWith(".svg") || !existsSync(file)) return image(tokens, index, options, env, self);
    const text = readFileSync(file, "utf8");
    const drawn = text.replace(/<style>[\s\S]*?<\/style>/, "").replace(/^<\?xml.*\n/, "");
    return `<span class="picture" tabindex="0" role="group" aria-label="${md.utils.escapeHtml(token.content)}">${drawn}</span>`;
  };
}

/** A wide table scrolls by itself, so keyboards must be able to reach it. */
function reachTables(md) {
  md.renderer.rules.table_open = () => '<table tabindex="0">\n';
}

function extendMarkdown(md) {
  drawPictures(md);
  reachTables(md);
}

/** Of the reference of the library the search knows the names: its tables repeat what the guides say. */
function renderForSearch(source, env, md) {
  if (!env.relativePath.startsWith("api/")) return md.render(source, env);
  const names = source.split("\n").filter((line) => /^#{1,3} /.test(line));
  return md.render(names.join("\n\n"), env);
}

export default defineConfig({
  lang: "en",
  title: "nevertwice",
  description: "Run an operation once, and give every retry the same answer.",
  base: BASE,
  srcDir: "./.cache/pages",
  outDir: "../.cache/site",
  cacheDir: "./.cache/vitepress",
  cleanUrls: true,
  sitemap: { hostname: SITE },
  head: [
    ["link", { rel: "icon", type: "image/svg+xml", href: `${BASE}icon.svg` }],
    ["link", { rel: "alternate", type: "text/plain", href: `${BASE}llms.txt`, title: "For coding agents" }],
    ["meta", { name: "theme-color", content: "#0f766e" }],
  ],
  transformHead: ({ page }) => [
    ["link", { rel: "alternate", type: "text/markdown", href: `${BASE}${page}` }],
  ],
  markdown: {
    anchor: { slugify: anchorOf },
    config: extendMarkdown,
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  themeConfig: {
    logo: "/icon.svg",
    search: {
      provider: "local",
      options: {
        detailedView: true,
        _render: renderForSearch,
        miniSearch: {
          searchOptions: {
            // Answers first, then lists of measurements.
            boostDocument: (id) => (/\/(api|results)\//.test(id) ? 0.4 : 1),
          },
        },
      },
    },
    outline: { level: [2, 3] },
    nav: [
      { text: "Start", link: "/five-minutes" },
      { text: "Which door?", link: "/doors" },
      { text: "Reference", link: "/options" },
      { text: "API", link: "/api/imports" },
    ],
    sidebar: { "/api/": apiSidebar(), "/": sidebar },
    socialLinks: [{ icon: "github", link: REPOSITORY }],
    editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path`, text: "Edit this page" },
    footer: { message: "MIT licence" },
  },
});

function apiSidebar() {
  const items = apiPages
    .filter(({ file }) => file !== "api/imports.md")
    .sort((a, b) => a.title.localeCompare(b.title))
    .map(({ title, file }) => ({ text: title.replace(/^nevertwice\//, ""), link: addressOf(file) }));
  return [
    { text: "Back to the guides", link: "/five-minutes" },
    { text: "All imports", link: "/api/imports" },
    { text: "nevertwice/…", link: "/api/", items },
  ];
}
