/** Tests the figures of the overview in a real browser: duplicates stopped are the sum of the parts that are shown. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { built, launch, openPage, openStage, PHONE, type Stage, violationsOn } from "./dashboard-stage.ts";

let browser: Browser;
let stage: Stage;

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage()]);
  const guard = stage.server.context.guard("default", "gateway");
  const request = { operation: "POST /orders", key: "order-1", fingerprint: 1 };
  const duplicate = (more: object) => guard.tryRun({ ...request, ...more }, () => "paid");
  await guard.run(request, async () => {
    await duplicate({ onPending: "reject" });
    return "paid";
  });
  for (let replays = 0; replays < 3; replays++) await duplicate({});
  await duplicate({ onCompleted: "reject" });
  await duplicate({ fingerprint: 2 });
  await duplicate({ fingerprint: 3 });
  await stage.server.context.figures.flush();
}, 600_000);

afterAll(async () => {
  await browser?.close();
  await stage?.close();
});

async function tile(page: Page, name: string): Promise<string> {
  return page.locator(".tile", { has: page.getByRole("heading", { name, exact: true }) }).innerText();
}

it.each([
  { look: "light", colorScheme: "light" },
  { look: "dark", colorScheme: "dark" },
  { look: "phone", colorScheme: "light", viewport: PHONE },
] as const)(
  "the overview on $look counts pending duplicates, and its sums match the parts",
  async ({ look, ...options }) => {
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
    await page.goto("/");
    const row = page.getByRole("row", { name: /POST \/orders/ });
    await row.waitFor();
    expect((await row.locator("td").allInnerTexts()).map((text) => text.trim())).toEqual([
      ...["POST /orders", "gateway", "1", "7", "3", "1", "1", "2", "0"],
    ]);
    const parts = "3 replays, 1 already done, 1 pending, 2 conflicts";
    await page.getByText(`1 first run; 7 duplicates stopped: ${parts}.`).waitFor();
    expect(await tile(page, "Duplicates stopped")).toMatch(
      new RegExp(`7\\s+in the last 60 seconds: ${parts}`),
    );
    for (const name of ["Pending", "Already done"]) expect(await tile(page, name)).toContain("/s");
    if (process.env.NEVERTWICE_LOOK !== undefined)
      await page.screenshot({ path: `${process.env.NEVERTWICE_LOOK}/figures-${look}.png`, fullPage: true });
    expect(await violationsOn(page)).toEqual([]);
    expect(missteps).toEqual([]);
    const wide = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    expect(wide).toBeLessThanOrEqual(0);
    await page.context().close();
  },
);
