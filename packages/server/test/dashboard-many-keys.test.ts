/** Tests the list of keys in a real browser on a store with very many keys, in SQLite, the default of the server. */
import { join } from "node:path";
import { openStore } from "nevertwice/stores/open";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { count, ms, reportOn } from "../../nevertwice/test/scale/figures.ts";
import { fill } from "../../nevertwice/test/scale/filling.ts";
import { sizeOf } from "../../nevertwice/test/scale/sizes.ts";
import { scratchFolder } from "../../nevertwice/test/scratch-folder.ts";
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

const { records } = sizeOf("dashboard");
const PAGE = 50;
let browser: Browser;
let stage: Stage;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  await built();
  const folder = await scratchFolder({ onTestFinished: (end) => ends.push(end) });
  const url = `sqlite:${join(folder, "keys.db")}`;
  const store = await openStore(url);
  await fill({ store, url, records, isExpired: false, isVaried: true });
  await store.close();
  [browser, stage] = await Promise.all([launch(), openStage({ store: url, namespace: "scale" })]);
}, 600_000);

afterAll(async () => {
  await browser?.close();
  await stage?.close();
  for (const end of ends) await end();
});

describe.each(LOOKS)("on $look", ({ look, ...options }) => {
  it("the newest of very many keys are shown page by page, by operation, and by exact text", async () => {
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
    onTestFinished(() => page.context().close());
    const rows = page.getByRole("region").locator("tbody tr");
    const keys = () => rows.locator("td:first-child").allInnerTexts();
    const numbered = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => `order-${from + index}`);

    /** How long it takes until the page shows what was asked for. */
    const took: string[] = [];
    const timed = async (what: string, show: () => Promise<unknown>) => {
      const startedAt = performance.now();
      await show();
      took.push(`${what} ${ms(performance.now() - startedAt)}`);
    };
    const shows = (key: string) => page.getByRole("link", { name: key, exact: true }).first().waitFor();

    await timed("the first page", async () => {
      await page.goto("/keys");
      await page.getByText("The key that was claimed last is first.").waitFor();
    });
    // The first one is the record of which the others are copies.
    expect((await keys()).slice(1)).toEqual(numbered(1, PAGE - 1));
    expect(await violationsOn(page)).toEqual([]);
    expect(await overflowPx(page)).toBeLessThanOrEqual(0);
    await keepPicture(page, `many-keys-${look}`);

    await timed("the next page", async () => {
      await page.getByRole("button", { name: "Show more" }).click();
      await shows(`order-${2 * PAGE - 1}`);
    });
    expect((await keys()).slice(1)).toEqual(numbered(1, 2 * PAGE - 1));

    await timed("one operation", async () => {
      await page.goto("/keys?operation=operation-7");
      await shows(`order-${7 + 20 * (PAGE - 1)}`);
    });
    expect(await keys()).toEqual(Array.from({ length: PAGE }, (_, index) => `order-${7 + 20 * index}`));

    await page.goto("/keys");
    await timed("the oldest key by its exact text", async () => {
      await page.getByRole("searchbox").fill(`order-${records}`);
      await shows(`order-${records}`);
    });
    expect((await keys())[0]).toBe(`order-${records}`);
    await keepPicture(page, `many-keys-found-${look}`);
    reportOn(`SQLite, ${look}`, {
      trial: "Keys in a browser",
      figures: `among ${count(records)} keys it took until the page showed it: ${took.join(", ")}`,
    });
    expect(missteps).toEqual([]);
  });
});
