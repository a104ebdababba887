/** Tests the pages of pipelines in a real browser, against a real server that runs a network. */
import type { Pipeline } from "nevertwice/pipeline";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  built,
  keepPicture,
  launch,
  openPage,
  openStage,
  PHONE,
  type Stage,
  violationsOn,
} from "./dashboard-stage.ts";
import { keepOrdering, pushFates, startShop } from "./pipeline-stage.ts";

const SHOP = `/pipelines/${encodeURIComponent("shop orders")}`;
let browser: Browser;
let stage: Stage;
let pipeline: Pipeline;

beforeAll(async () => {
  await built();
  browser = await launch();
}, 600_000);

beforeEach(async () => {
  stage = await openStage();
  pipeline = await startShop(stage.server);
});

afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
  await stage.close();
});

afterAll(() => browser?.close());

const LOOKS = [
  { look: "light", colorScheme: "light" },
  { look: "dark", colorScheme: "dark" },
  { look: "phone", colorScheme: "light", viewport: PHONE },
] as const;

describe("the pages of pipelines", { timeout: 120_000 }, () => {
  it("draw the network with figures under load, accessible in light, dark and on a phone", async () => {
    await pushFates(pipeline);
    const stop = keepOrdering(pipeline);
    for (const { look, ...options } of LOOKS) {
      const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
      await page.goto(SHOP);
      const graph = page.getByRole("region", { name: "Graph of shop orders" });
      // The held key is counted some seconds after the page asks for the first time.
      await graph.getByText(/^1 held/).waitFor({ timeout: 30_000 });
      await graph
        .getByText(/\d\/s · \d+ active/)
        .first()
        .waitFor();
      await graph
        .getByText(/p50 .*ms · p95 .*ms/)
        .first()
        .waitFor();
      expect(await graph.getByRole("link").count()).toBe(6);
      expect(await graph.locator("path.is-busy").count()).toBeGreaterThanOrEqual(5);
      await page
        .getByRole("link", { name: "m-hang" })
        .or(page.getByRole("link", { name: /^message-/ }))
        .first()
        .waitFor();
      const running = page.getByRole("row").filter({ has: page.getByText("running", { exact: true }) });
      const took = await running.locator('[data-name="Took"]').allInnerTexts();
      expect(took, "what still runs has taken no time yet").toEqual(took.map(() => "–"));
      expect(await violationsOn(page), look).toEqual([]);
      const wide = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
      expect(wide, `${look}: the page scrolls sideways`).toBeLessThanOrEqual(0);
      await keepPicture(page, `pipeline-${look}`);
      expect(missteps, look).toEqual([]);
    }
    stop();
  });

  it("list the networks, and follow a link to one by keyboard", async () => {
    const { page, missteps } = await openPage(browser, stage.url);
    await page.goto("/pipelines");
    const link = page.getByRole("link", { name: "shop orders" });
    await link.waitFor();
    await page.getByText("2.1.0 · 6 nodes").waitFor();
    expect(await violationsOn(page)).toEqual([]);
    await link.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "shop orders" }).waitFor();
    // A node of the graph is reached and chosen by keyboard.
    const charge = page.getByRole("link", { name: /^charge, transform/ });
    await charge.focus();
    await page.keyboard.press("Enter");
    const card = page.getByRole("region", { name: "Node charge" });
    await card.getByText("Does the work of charge.").waitFor();
    await card.getByText("2 retries, timeout 300 ms").waitFor();
    expect(new URL(page.url()).search).toBe("?node=charge");
    expect(missteps).toEqual([]);
  });

  it("lead from a node to its held keys", async () => {
    await pushFates(pipeline);
    const { page } = await openPage(browser, stage.url);
    await page.goto(`${SHOP}?node=charge`);
    const card = page.getByRole("region", { name: "Node charge" });
    const waiting = card.locator("div", { hasText: "Waiting for a decision" }).last();
    await waiting.getByText("1", { exact: false }).waitFor({ timeout: 30_000 });
    await expect.poll(() => waiting.innerText(), { timeout: 30_000 }).toContain("1 its keys");
    await waiting.getByRole("link", { name: "its keys" }).click();
    await page.getByRole("link", { name: "o-hang" }).waitFor();
  });

  it("show the journey of a message from its entry to its end", async () => {
    await pushFates(pipeline);
    for (const { look, ...options } of LOOKS) {
      const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
      await page.goto(SHOP);
      await page.getByRole("searchbox", { name: "Id or trace of a message" }).fill("m-retry");
      await page.getByRole("button", { name: "Find" }).click();
      const found = page.getByRole("region", { name: "Journeys" }).getByRole("link");
      await expect.poll(() => found.allInnerTexts()).toEqual(["m-retry"]);
      await page.getByRole("link", { name: "m-retry" }).click();
      const steps = page.getByRole("region", { name: "Steps" }).getByRole("listitem");
      await steps.filter({ hasText: "settled" }).waitFor();
      const texts = (await steps.allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
      expect(texts[0]).toMatch(/entered price by orders$/);
      expect(texts.find((text) => text.includes("retrying"))).toMatch(
        /retrying charge try 2, bank-busy, again in/,
      );
      expect(texts.at(-1)).toMatch(/settled acknowledge$/);
      expect(await page.content()).not.toContain("4242");
      expect(await violationsOn(page), look).toEqual([]);
      await keepPicture(page, `journey-${look}`);
      expect(missteps, look).toEqual([]);
    }
  });

  it("say so if no network runs, and if one has stopped", async () => {
    await pipeline.close();
    const { page } = await openPage(browser, stage.url);
    await page.goto("/pipelines");
    await page.getByRole("heading", { name: "No network runs here" }).waitFor();
    expect(await violationsOn(page)).toEqual([]);
    await page.goto(SHOP);
    await page.getByRole("heading", { name: "This network does not run here" }).waitFor();
  });
});
