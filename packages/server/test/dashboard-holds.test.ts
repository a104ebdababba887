/** Tests the page of holds with many resources in a real browser: order, table, search, and the holds of one resource. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  built,
  keepPicture,
  LOOKS,
  launch,
  openPage,
  openStage,
  overflowPx,
  type Stage,
  violationsOn,
} from "./dashboard-stage.ts";

const SEATS = 500;
let browser: Browser;
let stage: Stage;

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage()]);
  const holds = stage.server.context.holds("default");
  if (holds === undefined) throw new Error("the memory store keeps holds");
  const seats = Array.from({ length: SEATS }, (_, index) => `seat ${index + 1}`);
  await Promise.all(
    seats.map((resource) =>
      holds.resources.declare({ resource, capacity: 3, key: `declare ${resource}`, scope: "stage" }),
    ),
  );
  for (const [index, resource] of seats.slice(0, 9).entries())
    for (let unit = 0; unit <= index % 3; unit++)
      await holds.placeHold({
        resource,
        requester: `customer-${index}-${unit}`,
        durationMs: 600_000 + index * 1_000,
        key: `hold ${resource} ${unit}`,
        scope: "stage",
      });
}, 600_000);

afterAll(async () => {
  await browser?.close();
  await stage?.close();
});

describe.each(LOOKS)("on $look", ({ look, ...options }) => {
  it("500 resources are a table in natural order, with the holds in reach", async () => {
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
    await page.goto("/holds");
    const resources = page.getByRole("region", { name: "Resources" });
    await resources.waitFor();

    const names = await resources.locator("tbody tr td:first-child").allInnerTexts();
    expect(names).toEqual(Array.from({ length: 10 }, (_, index) => `seat ${index + 1}`));
    expect(await page.getByRole("region", { name: "Holds" }).locator("tbody tr").count()).toBe(18);
    expect(await violationsOn(page)).toEqual([]);
    expect(await overflowPx(page)).toBeLessThanOrEqual(0);
    expect(missteps).toEqual([]);
    await keepPicture(page, `resources-${look}`);

    await resources.getByRole("button", { name: "Show all 500" }).click();
    expect(await resources.locator("tbody tr").count()).toBe(SEATS);
    await page.context().close();
  });
});

it("resources are searched by name, and the address keeps the search", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.goto("/holds");
  await page.getByLabel("Search resources").fill("SEAT 49");
  const names = page.locator(".resource-name, [aria-label=Resources] tbody td:first-child");
  await expect
    .poll(() => names.allInnerTexts())
    .toEqual(["seat 49", ...Array.from({ length: 10 }, (_, index) => `seat ${490 + index}`)]);
  expect(new URL(page.url()).search).toBe("?search=SEAT+49");
  await page.getByLabel("Search resources").fill("balcony");
  await page.getByText("No resource has this text in its name.").waitFor();
  await page.context().close();
});

it("a resource leads to its holds", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.goto("/holds");
  await page.getByRole("link", { name: "seat 3", exact: true }).click();
  const holds = page.getByRole("region", { name: "Holds" }).locator("tbody tr");
  await expect.poll(() => holds.count()).toBe(3);
  await page.getByRole("button", { name: "Resource seat 3" }).click();
  await expect.poll(() => holds.count()).toBe(18);
  await page.context().close();
});
