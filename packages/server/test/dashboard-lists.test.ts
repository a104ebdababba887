/** Tests waiting decisions and the list of keys in a real browser: badge, overview, order, filters, exact text. */
import type { Browser, Page, Route } from "playwright-core";
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

const HELD = ["payout-1", "payout-2", "payout-3"];
let browser: Browser;
let stage: Stage;

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage()]);
  const guard = stage.server.context.guard("default");
  for (let index = 1; index <= 60; index++)
    await guard.run({ operation: "charge", scope: `customer-${index % 5}`, key: `order-${index}` }, () => 1);
  for (const key of HELD) await abandonClaim(key, "hold");
  // Claims of one millisecond are in the order of their ids.
  const claimedAt = Date.now();
  while (Date.now() === claimedAt) await new Promise((resolve) => setImmediate(resolve));
  await abandonClaim("free-1", "takeover");
}, 600_000);

afterAll(async () => {
  await browser?.close();
  await stage?.close();
});

async function abandonClaim(key: string, onLapsed: "hold" | "takeover", operation = "payout"): Promise<void> {
  const claims = stage.server.context.claims("default");
  const claim = await claims.claim({ operation, scope: "billing", key, onLapsed });
  if (claim.status !== "new") throw new Error("the scene is not set");
  await claims.abandon({ id: claim.id, token: claim.token, as: "unknown" });
}

async function checkLook(page: Page, missteps: readonly string[]): Promise<void> {
  expect(await violationsOn(page)).toEqual([]);
  expect(await overflowPx(page)).toBeLessThanOrEqual(0);
  expect(missteps).toEqual([]);
}

const keysOn = (page: Page) => page.getByRole("region").locator("tbody tr td:first-child").allInnerTexts();

describe.each(LOOKS)("on $look", ({ look, ...options }) => {
  it("undecided keys are counted in the navigation and on the overview, and exactly they are listed", async () => {
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
    await page.goto("/");
    await page.getByRole("heading", { name: "Waiting decisions" }).waitFor();
    const tile = page.locator(".tile.is-warn");
    expect(await tile.locator(".tile-number").innerText()).toBe("3");
    expect(await tile.locator(".tile-hint").innerText()).toMatch(/^The oldest for (<1s|\d+[sm]( \d+s)?)$/);
    await checkLook(page, missteps);
    await keepPicture(page, `waiting-${look}`);

    await page.getByRole("link", { name: /^Unknown 3 waiting for a decision$/ }).click();
    await page.getByRole("link", { name: "payout-1" }).waitFor();
    expect((await keysOn(page)).sort()).toEqual(HELD);
    await checkLook(page, missteps);
    await keepPicture(page, `unknown-keys-${look}`);
    await page.context().close();
  });

  it("the list of keys is newest first and has filters", async () => {
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
    await page.goto("/keys");
    await page.getByText("The key that was claimed last is first.").waitFor();
    expect((await keysOn(page))[0]).toBe("free-1");
    await checkLook(page, missteps);
    await keepPicture(page, `keys-list-${look}`);
    await page.context().close();
  });
});

it("a decision takes the key out of the badge and the list", async () => {
  await abandonClaim("decide-me", "hold", "transfer");
  const { page } = await openPage(browser, stage.url);
  await page.goto("/unknown");
  await page.getByRole("link", { name: "Unknown 4 waiting for a decision" }).waitFor();
  const row = page.getByRole("row").filter({ hasText: "decide-me" });
  await row.getByRole("button", { name: "Not done…" }).click();
  await page.getByRole("dialog").getByRole("textbox").last().fill("decide");
  await page.getByRole("dialog").getByRole("button", { name: "Resolve" }).click();
  await page.getByRole("link", { name: "Unknown 3 waiting for a decision" }).waitFor();
  await expect.poll(async () => (await keysOn(page)).sort()).toEqual(HELD);
  await page.context().close();
});

it("a lapsed key says when it lapsed, not what time it is", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.goto("/unknown");
  await page.getByRole("link", { name: "payout-1" }).click();
  await page.getByText("Lapsed, outcome unknown").waitFor();
  const guard = stage.server.context.guard("default");
  const record = await guard.read({ operation: "payout", scope: "billing", key: "payout-1" });
  const lapsed = page.locator(".moment").filter({ hasText: "Lapsed, outcome unknown" }).locator("time");
  expect(await lapsed.getAttribute("datetime")).toBe(new Date(record?.lapsedAt ?? 0).toISOString());
  await page.context().close();
});

it("an operation and a point in time narrow the list, and the address keeps them", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.goto("/keys");
  await page.getByRole("link", { name: "payout", exact: true }).first().click();
  await expect.poll(async () => (await keysOn(page)).sort()).toEqual(["free-1", ...HELD]);
  expect(new URL(page.url()).search).toBe("?operation=payout");
  await page.getByLabel("Claimed until").fill("2020-01-01T00:00:00");
  await page.getByText("No key matches all of these filters.").waitFor();
  expect(new URL(page.url()).searchParams.get("before")).toMatch(/^15778\d{5}999$/);
  await page.getByRole("button", { name: "Show all keys" }).click();
  await page.getByRole("link", { name: "order-60" }).waitFor();
  await page.context().close();
});

it("the exact text of a key finds it first", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.goto("/keys");
  await page.getByLabel("Search keys, operations and scopes").fill("order-1");
  await expect.poll(async () => (await keysOn(page))[0]).toBe("order-1");
  expect(await keysOn(page)).toContain("order-10");
  await page.context().close();
});

it("an answer that takes longer than the interval of reloads is shown, and one that is lost is asked for again", async () => {
  const { page } = await openPage(browser, stage.url);
  await page.clock.install();
  const held: Route[] = [];
  await page.route(
    ({ pathname }) => pathname === "/v1/keys",
    (route) => void held.push(route),
  );
  await page.goto("/keys");
  await expect.poll(() => held.length).toBe(1);
  await page.clock.runFor(25_000);
  expect(held).toHaveLength(1);
  await held[0]?.continue();
  await page.getByText("The key that was claimed last is first.").waitFor();
  await page.clock.runFor(5_000);
  await expect.poll(() => held.length).toBe(2);
  await page.clock.runFor(40_000);
  await expect.poll(() => held.length).toBe(3);
  await page.context().close();
});

it("callers that see the whole server learn which other namespaces have keys", async () => {
  await stage.server.context.guard("loans").run({ operation: "work", key: "1" }, () => 1);
  const { page } = await openPage(browser, stage.url);
  await page.goto("/keys");
  await page.getByText("a token of theirs shows them: loans.").waitFor();
  await page.context().close();
});
