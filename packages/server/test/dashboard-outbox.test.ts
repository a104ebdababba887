/** Tests the page of the outbox in a real browser, against a real server and an application's SQLite file. */
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
import { type Application, relayUntil, sqliteApplication } from "./outbox-stage.ts";

const TOKEN = "a-token-of-the-configuration-0123456789";
let browser: Browser;
let application: Application;
let stage: Stage;
let relay: { stop(): Promise<void> } | undefined;

beforeAll(async () => {
  await built();
  browser = await launch();
}, 600_000);

beforeEach(async () => {
  application = await sqliteApplication();
  stage = await openStage({ store: application.url });
});

afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
  await relay?.stop();
  relay = undefined;
  await stage.close();
  await application.close();
});

afterAll(() => browser?.close());

/** Messages in every state: two parked ones with two behind them, one planned, two in delivery, and `due` that are due. */
async function fillOutbox(due: number): Promise<void> {
  await application.send(
    { topic: "payment.authorized", key: "customer-1842", body: 1, headers: { fate: "refuse" } },
    { topic: "payment.captured", key: "customer-1842", body: 2 },
    { topic: "payment.refunded", key: "customer-1842", body: 3 },
    { topic: "newsletter.joined", body: 4, headers: { fate: "refuse" } },
    { topic: "stock.reserved", key: "warehouse-7", body: 5, headers: { fate: "later" } },
    { topic: "invoice.created", key: "customer-77", body: 6 },
    { topic: "receipt.sent", body: 7 },
  );
  relay = await relayUntil(application, async () => {
    const { parked, behind, delivering, waiting } = await application.outbox.figures();
    return parked === 2 && behind === 2 && delivering === 2 && waiting === 1;
  });
  await relay.stop();
  const names = ["order.placed", "payment.captured", "shipment.requested"];
  const messages = Array.from({ length: due }, (_, index) => ({
    topic: names[index % names.length] as string,
    key: `order-${4_100 + index}`,
    body: index,
  }));
  if (due > 0) await application.send(...messages);
}

const LOOKS = [
  { look: "light", colorScheme: "light" },
  { look: "dark", colorScheme: "dark" },
  { look: "phone", colorScheme: "light", viewport: PHONE },
] as const;

describe("the page of the outbox", { timeout: 60_000 }, () => {
  it("shows figures, states and errors, and breaks no rule of accessibility in light, dark and on a phone", async () => {
    await fillOutbox(6);
    for (const { look, ...options } of LOOKS) {
      const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
      await page.goto("/outbox");
      const table = page.getByRole("region", { name: "Messages" });
      await table.getByText("customer-77").waitFor();
      const tiles = await page.locator(".tile-number").allTextContents();
      expect(tiles.slice(0, 3), look).toEqual(["9", "2", "2"]);
      expect(await table.textContent()).toContain("the receiver answered 422: unknown customer");
      expect(await violationsOn(page), look).toEqual([]);
      expect(missteps, look).toEqual([]);
      const width = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      expect(width, `${look} scrolls sideways`).toBeLessThanOrEqual(0);
      const hidden = await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
      expect(hidden, `${look} hides a part of the table`).toBe(0);
      await keepPicture(page, `outbox-${look}`);
    }
  });

  it("filters by state and key, and the address contains the filter", async () => {
    await fillOutbox(0);
    const { page } = await openPage(browser, stage.url);
    await page.goto("/outbox");
    await page.getByRole("link", { name: "customer-1842" }).first().click();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(3);
    await page.getByRole("button", { name: "Behind" }).click();
    await expect.poll(() => page.locator("tbody .badge").allTextContents()).toEqual(["behind", "behind"]);
    expect(new URL(page.url()).search).toBe("?state=behind&key=customer-1842");
    await page.getByRole("button", { name: "Delivering" }).click();
    await page.getByText("No matching messages").waitFor();
    await page.getByRole("button", { name: "Show all messages" }).click();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(7);
  });

  it("retries and parks after a question, and discards only after a typed confirmation", async () => {
    await fillOutbox(0);
    const { page, missteps } = await openPage(browser, stage.url);
    await page.goto("/outbox?key=customer-1842");
    const dialog = page.getByRole("dialog");
    const states = () => page.locator("tbody .badge").allTextContents();
    await page.getByRole("button", { name: "Retry… customer-1842" }).click();
    expect(await violationsOn(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect.poll(states).toEqual(["parked", "behind", "behind"]);
    await page.getByRole("button", { name: "Retry… customer-1842" }).click();
    await dialog.getByRole("button", { name: "Retry" }).click();
    await page.getByText("The message is due now.").waitFor();
    await expect.poll(states).toEqual(["waiting", "behind", "behind"]);
    await page.getByRole("button", { name: "Park… customer-1842" }).first().click();
    await dialog.getByRole("button", { name: "Park" }).click();
    await expect.poll(states).toEqual(["parked", "behind", "behind"]);
    await page.getByRole("button", { name: "Discard… customer-1842" }).first().click();
    const discard = dialog.getByRole("button", { name: "Discard" });
    expect(await discard.isDisabled()).toBe(true);
    await dialog.getByLabel(/^Type/).fill("custom");
    await discard.click();
    await page.getByText("The message was discarded.").waitFor();
    await expect.poll(states).toEqual(["waiting", "behind"]);
    expect(missteps).toEqual([]);
  });

  it("says so in the dialog when a message was delivered in the meantime", async () => {
    await application.send({ topic: "invoice.created", body: 1 });
    const { page } = await openPage(browser, stage.url);
    await page.goto("/outbox");
    await page.getByRole("button", { name: "Park… invoice.created" }).click();
    await application.outbox.discard((await application.outbox.list()).messages[0]?.id ?? "");
    await page.getByRole("dialog").getByRole("button", { name: "Park" }).click();
    await page.getByRole("alert").getByText("no undelivered message has this id").waitFor();
  });

  it("explains itself if everything is delivered, and if the store has no outbox", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto("/outbox");
    await page.getByText("Everything is delivered").waitFor();
    const without = await openStage();
    const { page: other } = await openPage(browser, without.url);
    await other.goto("/outbox");
    await other.getByText("This store has no outbox").waitFor();
    expect(await other.textContent("main")).toContain("--outbox-store");
    await without.close();
  });

  it("loads many messages page by page, and shows an auditor neither buttons nor whole keys", async () => {
    await fillOutbox(230);
    const guarded = await openStage({ store: application.url, accessToken: TOKEN });
    const { token } = await guarded.server.context.access.create({ name: "eve", role: "auditor" });
    const { page } = await openPage(browser, guarded.url);
    await page.goto("/outbox");
    await page.getByLabel(/token/i).fill(token);
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("tbody tr").count()).toBe(100);
    for (const rows of [200, 237]) {
      await page.getByRole("button", { name: "Show more" }).click();
      await expect.poll(() => page.locator("tbody tr").count()).toBe(rows);
    }
    expect(await page.getByRole("button", { name: /Discard|Retry|Park/ }).count()).toBe(1);
    expect(await page.textContent("table")).not.toMatch(/customer|answered/);
    await guarded.close();
  });
});
