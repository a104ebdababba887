/**
 * Tests the site that `npm run docs` builds, in a browser: links, anchors, errors, accessibility, phones, search, and the twins
 * for programs. `npm run campaign -- site` looks at every page in every way. Needs the build.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BASE } from "../../../scripts/site/addresses.js";
import { serveFolder } from "../../../scripts/site/serve.js";
import { IS_FULL } from "../../nevertwice/test/scale/sizes.ts";
import { LOOKS, launch, openPage, overflowPx, PHONE, violationsOn } from "./dashboard-stage.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const SITE = `${ROOT}.cache/site/`;
/** One page of each kind. */
const SAMPLE = ["index.html", "http.html", "lifecycle.html", "api/http/express.html"];
const TIMEOUT_MS = IS_FULL ? 3_600_000 : 600_000;

const files = () => readdirSync(SITE, { recursive: true }).map((name) => String(name).replaceAll("\\", "/"));
const read = (file: string) => readFileSync(join(SITE, file), "utf8");
const pages = () => files().filter((file) => file.endsWith(".html") && file !== "404.html");
const addressOf = (file: string) => file.replace(/(^|\/)index\.html$/, "$1").replace(/\.html$/, "");

let browser: Browser;
let site: Awaited<ReturnType<typeof serveFolder>>;

beforeAll(async () => {
  await promisify(execFile)(process.execPath, [`${ROOT}scripts/site.js`], { cwd: ROOT });
  site = await serveFolder(SITE, { base: BASE, port: 0 });
  browser = await launch();
}, 600_000);

afterAll(async () => {
  await browser?.close();
  site?.close();
});

test("every link of every page leads to a page and a section that exist", () => {
  const all = new Set(files());
  const ids = new Map(
    pages().map((file) => [file, new Set([...read(file).matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  const broken = pages().flatMap((file) =>
    [...read(file).matchAll(/<a\s[^>]*?href="([^"]+)"/g)].flatMap(([, href = ""]) => {
      if (/^(?:https?|mailto):/.test(href)) return [];
      const { pathname, hash } = new URL(
        href.replaceAll("&amp;", "&"),
        `http://site${BASE}${addressOf(file)}`,
      );
      if (!pathname.startsWith(BASE)) return [`${file}: ${href}`];
      const inside = decodeURIComponent(pathname.slice(BASE.length));
      const aim = [inside, `${inside}.html`, `${inside}index.html`].find((name) => all.has(name));
      if (aim === undefined) return [`${file}: ${href}`];
      const anchor = decodeURIComponent(hash.slice(1));
      if (anchor === "" || !aim.endsWith(".html") || ids.get(aim)?.has(anchor)) return [];
      return [`${file}: ${href} has no such section`];
    }),
  );
  expect(broken).toEqual([]);
  expect(pages().length).toBeGreaterThan(150);
});

test("every page has a Markdown twin, and llms.txt leads to those of the sections", () => {
  const all = new Set(files());
  const twins = pages().map((file) => file.replace(/\.html$/, ".md"));
  expect(twins.filter((file) => !all.has(file))).toEqual([]);
  const listed = [...read("llms.txt").matchAll(/\]\(https:\/\/[^/]+\/nevertwice\/([^)]+)\)/g)].map(
    ([, file]) => file,
  );
  expect(listed.length).toBeGreaterThan(80);
  expect(listed.filter((file) => file === undefined || !all.has(file))).toEqual([]);
  expect(read("llms-full.txt")).toContain("# Which door do I need?");
  // A twin stands alone: its links are whole addresses.
  const relative = twins.flatMap((file) =>
    [...read(file).matchAll(/\]\((?!https?:|#|mailto:)([^)\s]+)\)/g)].map(
      ([, target]) => `${file}: ${target}`,
    ),
  );
  expect(relative.filter((link) => link.startsWith("lifecycle.md") || link.startsWith("http.md"))).toEqual(
    [],
  );
});

test("pages have no console error, are accessible, and fit a phone", { timeout: TIMEOUT_MS }, async () => {
  for (const file of IS_FULL ? pages() : SAMPLE) {
    for (const { look, ...options } of LOOKS) {
      const { page, missteps } = await openPage(browser, site.url, options);
      await page.goto(addressOf(file), { waitUntil: "networkidle" });
      expect(missteps, `${file}, ${look}`).toEqual([]);
      expect(await violationsOn(page), `${file}, ${look}`).toEqual([]);
      await page.context().close();
    }
  }
});

test("no page scrolls sideways on a phone", { timeout: TIMEOUT_MS }, async () => {
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: IS_FULL });
  const page = await context.newPage();
  const wide: string[] = [];
  for (const file of pages().filter((name) => IS_FULL || dirname(name) === ".")) {
    await page.goto(site.url + addressOf(file));
    const px = await overflowPx(page);
    if (px > 0) wide.push(`${file}: ${px} px`);
  }
  await context.close();
  expect(wide).toEqual([]);
});

test.each([
  ["takeover", "claims"],
  ["webhook", "webhooks"],
  ["409", "errors"],
  ["leaseMs", "options"],
])("the search finds %s", async (word, found) => {
  const { page } = await openPage(browser, site.url);
  await page.goto("five-minutes");
  await page.locator(".VPNavBarSearch button").first().click();
  await page.locator("#localsearch-input").fill(word);
  await page.locator(".VPLocalSearchBox .results .result").first().waitFor();
  const targets = await page
    .locator(".VPLocalSearchBox .results a.result")
    .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
  expect(targets.some((target) => target.startsWith(`${BASE}${found}`))).toBe(true);
  await page.context().close();
});
