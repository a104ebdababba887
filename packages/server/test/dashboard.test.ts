/** Tests every page of the dashboard in a real browser, against a real server. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  built,
  fill,
  findId,
  keepBusy,
  keepPicture,
  LOOKS,
  launch,
  openPage,
  openStage,
  overflowPx,
  type Stage,
  violationsOn,
} from "./dashboard-stage.ts";

let browser: Browser;
let stage: Stage;
let stopBusy: (() => void) | undefined;

/** For screenshots: a common store, and a minute of traffic. */
const pictured =
  process.env.NEVERTWICE_SCREENSHOTS !== "1"
    ? undefined
    : { store: `sqlite:${join(mkdtempSync(join(tmpdir(), "nevertwice-pictures-")), "nevertwice.db")}` };

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage(pictured ?? {})]);
  await fill(stage);
  if (pictured === undefined) return;
  stopBusy = keepBusy(stage);
  await new Promise((resolve) => setTimeout(resolve, 62_000));
}, 600_000);

afterAll(async () => {
  stopBusy?.();
  await browser?.close();
  await stage?.close();
});

/** Each page, and what is on it once it has loaded. */
const PAGES: readonly {
  readonly name: string;
  readonly path: () => string | Promise<string>;
  readonly ready: (page: Page) => Promise<void>;
}[] = [
  {
    name: "overview",
    path: () => "/",
    ready: async (page) => {
      await page
        .getByRole("img", { name: /First runs, replays/ })
        .locator("canvas")
        .waitFor();
      await page.getByText("Crash of a nevertwice process").waitFor();
      await page.getByRole("heading", { name: "Last 24 hours, all servers" }).waitFor();
      await page.getByRole("cell", { name: "send-receipt" }).waitFor();
    },
  },
  {
    name: "keys",
    path: () => "/keys",
    ready: (page) =>
      page
        .getByRole("link", { name: /^order-/ })
        .first()
        .waitFor(),
  },
  {
    name: "key",
    path: async () => `/keys/${await findId(stage, "order-4103")}`,
    ready: (page) => page.getByText("Answers retries").waitFor(),
  },
  {
    name: "unknown",
    path: () => "/unknown",
    ready: (page) => page.getByRole("link", { name: "payout-77" }).waitFor(),
  },
  { name: "holds", path: () => "/holds", ready: (page) => page.getByText("3 of 3 taken").waitFor() },
  {
    name: "audit",
    path: () => "/audit",
    ready: async (page) => {
      await page.getByRole("button", { name: "Run the audit" }).click();
      await page.getByRole("heading", { name: "Every invariant holds" }).waitFor();
    },
  },
  {
    name: "error",
    path: () => "/errors/pending",
    ready: (page) => page.getByText("holds the key, and either").waitFor(),
  },
];

describe.each(LOOKS)("on $look", ({ look, ...options }) => {
  it.each(PAGES)(
    "the page $name shows its data, breaks no rule of accessibility, and sends requests only to its own server",
    {
      timeout: 60_000,
    },
    async ({ name, path, ready }) => {
      const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });
      await page.goto(await path());
      await ready(page);
      await keepPicture(page, `${name}-${look}`);

      expect(await violationsOn(page)).toEqual([]);
      expect(missteps).toEqual([]);
      expect(await overflowPx(page)).toBeLessThanOrEqual(0);
      await page.context().close();
    },
  );
});
