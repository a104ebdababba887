/** Tests the actions of users on the dashboard, in a real browser against a real server. */
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { built, fill, launch, openPage, openStage, type Stage, violationsOn } from "./dashboard-stage.ts";

let browser: Browser;
let stage: Stage;
const TIMEOUT_MS = 60_000;
const SOON = { timeout: 20_000 };

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage()]);
  await fill(stage);
}, 600_000);

afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
});

afterAll(async () => {
  await browser?.close();
  await stage?.close();
});

function guard() {
  return stage.server.context.guard(stage.server.context.settings.namespace);
}

async function lapsed(key: string): Promise<{ readonly operation: string; readonly key: string }> {
  const claims = stage.server.context.claims(stage.server.context.settings.namespace);
  const claim = await claims.claim({ operation: "payout", key, onLapsed: "hold" });
  if (claim.status !== "new") throw new Error(claim.status);
  await claims.abandon({ id: claim.id, token: claim.token, as: "unknown" });
  return { operation: "payout", key };
}

async function openKey(page: Page, key: string): Promise<void> {
  await page.goto(`/keys?search=${key}`);
  await page.getByRole("link", { name: key }).click();
  await page.getByRole("heading", { level: 1, name: key }).waitFor();
}

async function typed(page: Page, phrase: string, action: string): Promise<void> {
  const dialog = page.getByRole("dialog");
  const button = dialog.getByRole("button", { name: action });
  const input = dialog.getByLabel(/^Type/);
  await input.fill(`${phrase}x`);
  expect(await button.isDisabled()).toBe(true);
  await input.fill(phrase);
  await button.click();
}

describe("finished steps", { timeout: TIMEOUT_MS }, () => {
  it("are shown on the page of a key, with their outcomes and in its timeline", async () => {
    const run = guard().run({ operation: "order", key: "order-in-steps" }, async (attempt) => {
      await attempt.step("charge", () => ({ receipt: 17 }));
      await attempt.step("ship", () => "parcel-4");
      throw new Error("failed");
    });
    await run.catch(() => {});
    const { page, missteps } = await openPage(browser, stage.url);
    await openKey(page, "order-in-steps");
    const card = page.getByRole("region", { name: "Finished steps" });
    await card.waitFor();
    const text = await card.textContent();
    for (const part of ["charge", "receipt", "17", "ship", "parcel-4"]) expect(text).toContain(part);
    await page.locator(".timeline").getByText("Step 2 done").waitFor();
    expect(await violationsOn(page)).toEqual([]);
    expect(missteps).toEqual([]);
  });
});

describe("overview", { timeout: TIMEOUT_MS }, () => {
  it("updates its numbers without a reload", async () => {
    const { page, missteps } = await openPage(browser, stage.url);
    await page.goto("/");
    const number = page.locator(".is-hero .tile-number");
    await number.waitFor();
    const shown = async () => Number((await number.textContent())?.replace(/\D/g, ""));
    const before = await shown();

    for (let times = 0; times < 41; times++)
      await guard().run({ operation: "live", key: "again" }, () => "once");

    await expect.poll(shown, SOON).toBeGreaterThanOrEqual(before > 40 ? 40 : before + 40);
    expect(missteps).toEqual([]);
  });

  it("shows which faults the store survives, and how to survive more", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto("/");

    const store = page.getByRole("region", { name: "Store" });
    await store.getByText("Power loss").waitFor();

    expect(await store.locator(".rung").count()).toBe(4);
    expect(await store.textContent()).toContain("To survive it:");
  });
});

describe("keys", { timeout: TIMEOUT_MS }, () => {
  it("are filtered and searched, and the address contains the filter", async () => {
    const { page, missteps } = await openPage(browser, stage.url);
    await page.goto("/keys");
    await page.getByRole("button", { name: "Pending" }).click();
    await page.getByRole("link", { name: "refund-810" }).waitFor();
    expect(await page.locator("tbody .badge").allTextContents()).toEqual([
      "pending",
      "pending",
      "pending",
      "pending",
    ]);

    await page.getByRole("searchbox").fill("refund-812");
    await page.getByRole("link", { name: "refund-810" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "refund-812" }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(1);
    expect(new URL(page.url()).search).toBe("?state=pending&search=refund-812");

    await page.getByRole("searchbox").fill("no such key");
    await page.getByText("No matching keys").waitFor();
    await page.getByRole("button", { name: "Show all keys" }).click();
    await page
      .getByRole("link", { name: /^order-/ })
      .first()
      .waitFor();
    expect(missteps).toEqual([]);
  });

  it("show a countdown of their lease", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto("/keys?search=refund-811");
    const timer = page.getByRole("timer");
    const before = await timer.textContent();

    await expect.poll(() => timer.textContent(), SOON).not.toBe(before);

    expect(await timer.textContent()).toMatch(/^(1m )?\d+s$/);
  });

  it("are loaded page by page, without duplicates", async () => {
    for (let index = 0; index < 70; index++)
      await guard().run({ operation: "many", scope: "paging", key: `page-${index}` }, () => index);
    const { page } = await openPage(browser, stage.url);
    await page.goto("/keys?scope=paging");
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("button", { name: "Show more" }).waitFor({ state: "detached" });

    const names = await page.locator("tbody td:first-child a").allTextContents();
    expect(new Set(names).size).toBe(70);
    expect(names).toHaveLength(70);
  });

  it("show a hint if there are none", async () => {
    const empty = await openStage();
    const { page, missteps } = await openPage(browser, empty.url);
    await page.goto("/keys");
    await page.getByText("No keys yet").waitFor();
    await page.goto("/unknown");
    await page.getByText("No unknown outcomes").waitFor();
    await page.goto("/holds");
    await page.getByText("No holds").waitFor();
    expect(missteps).toEqual([]);
    await empty.close();
  });
});

describe("one key", { timeout: TIMEOUT_MS }, () => {
  it("shows its history and its outcome", async () => {
    const { page, missteps } = await openPage(browser, stage.url);
    await openKey(page, "order-4103");

    const moments = await page.locator(".moment-title").allTextContents();

    expect(moments).toEqual(["Claimed", "Completed", "Replayed×3", "Answers retries"]);
    expect(await page.locator("pre").textContent()).toContain('"status": "paid"');
    expect(missteps).toEqual([]);
  });

  it("is resolved as done with a value after a typed confirmation, and retries get that value", async () => {
    const subject = await lapsed("resolve-1");
    const { page, missteps } = await openPage(browser, stage.url);
    await openKey(page, subject.key);
    await page.getByRole("button", { name: "Resolve…" }).click();
    await page.getByRole("radio", { name: /It was done/ }).check();
    await page.getByLabel(/The result of the work/).fill('{"paid": true}');
    expect(await violationsOn(page)).toEqual([]);
    await typed(page, "resolv", "Resolve");

    await page.getByText("The key was resolved: it was done.").waitFor();
    await page.getByText("completed", { exact: true }).first().waitFor();
    expect(await guard().run(subject, () => "again")).toEqual({ paid: true });
    expect(missteps).toEqual([]);
  });

  it("is released, and its work is done again", async () => {
    await guard().run({ operation: "send", key: "free-me" }, () => "first");
    const { page } = await openPage(browser, stage.url);
    await openKey(page, "free-me");
    await page.getByRole("button", { name: "Release…" }).click();
    await typed(page, "free-m", "Release");

    await page.getByText("The key was released.").waitFor();
    expect(await guard().run({ operation: "send", key: "free-me" }, () => "second")).toBe("second");
  });

  it("is forgotten, and only a mark is left", async () => {
    await guard().run({ operation: "send", key: "drop-me" }, () => "secret answer");
    const { page } = await openPage(browser, stage.url);
    await openKey(page, "drop-me");
    await page.getByRole("button", { name: "Forget…" }).click();
    await typed(page, "drop-m", "Forget");

    await page.getByRole("heading", { name: "The key was forgotten." }).waitFor();
    expect((await guard().tryRun({ operation: "send", key: "drop-me" }, () => "x")).status).toBe("not-kept");
    expect(await page.content()).not.toContain("secret answer");
  });

  it("a stale decision is refused, and the dialog stays open", async () => {
    const subject = await lapsed("stale-1");
    const { page } = await openPage(browser, stage.url);
    await openKey(page, subject.key);
    await page.getByRole("button", { name: "Resolve…" }).click();
    const [record] = (await guard().listUnknown({})).records.filter(({ key }) => key === subject.key);
    await guard().resolve({ ...subject, fence: record?.fence ?? 0 }, { status: "not-done" });
    await typed(page, "stale-", "Resolve");

    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("has changed since you read it");
  });

  it("shows an error if it does not exist", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto(`/keys/${"0".repeat(64)}`);

    await page.getByRole("alert").waitFor();
    await page.getByRole("link", { name: "What not-found means" }).click();
    await page.getByRole("heading", { name: "not-found" }).waitFor();
  });
});

describe("unknown outcomes", { timeout: TIMEOUT_MS }, () => {
  it("are decided one by one, and leave the list", async () => {
    const subject = await lapsed("inbox-1");
    const { page, missteps } = await openPage(browser, stage.url);
    await page.goto("/unknown");
    const row: Locator = page.getByRole("row").filter({ hasText: subject.key });
    await row.getByRole("button", { name: "Not done…" }).click();
    expect(await page.getByRole("radio", { name: /It was not done/ }).isChecked()).toBe(true);
    await typed(page, "inbox-", "Resolve");

    await row.waitFor({ state: "detached" });
    expect(await guard().run(subject, () => "now")).toBe("now");
    expect(missteps).toEqual([]);
  });
});

describe("holds and their audit", { timeout: TIMEOUT_MS }, () => {
  it("shows the taken units of resources and the time left of holds", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto("/holds");
    await page.getByText("3 of 3 taken").waitFor();
    expect(await page.getByRole("timer").count()).toBeGreaterThan(5);

    await page.getByRole("button", { name: "Confirmed" }).click();
    await page.getByText("confirmed", { exact: true }).first().waitFor();
    expect(await page.getByRole("timer").count()).toBe(0);
  });

  it("the audit gives one verdict with every invariant under it, and the report as text", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.goto("/audit");
    await page.getByText("Not run yet").waitFor();
    await page.getByRole("button", { name: "Run the audit" }).click();
    await page.getByRole("heading", { name: "Every invariant holds" }).waitFor();
    expect(await page.locator(".invariant").count()).toBeGreaterThan(10);

    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Report as text" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("audit.txt");
  });
});

describe("the frame", { timeout: TIMEOUT_MS }, () => {
  it("keeps the chosen theme after a reload", async () => {
    const { page } = await openPage(browser, stage.url, { colorScheme: "light" });
    const ground = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    await page.goto("/");
    expect(await ground()).toBe("rgb(247, 247, 245)");
    await page.getByRole("button", { name: "Dark" }).click();
    expect(await ground()).toBe("rgb(13, 15, 18)");

    await page.reload();
    await page.getByRole("button", { name: "Dark" }).waitFor();

    expect(await ground()).toBe("rgb(13, 15, 18)");
  });

  it("works with the keyboard: skip link, dialog and escape", async () => {
    await guard().run({ operation: "send", key: "by-keyboard" }, () => "x");
    const { page } = await openPage(browser, stage.url);
    await openKey(page, "by-keyboard");
    await page.reload();
    await page.getByRole("button", { name: "Forget…" }).waitFor();
    const focused = () =>
      page.evaluate<string>("document.activeElement.id || document.activeElement.textContent");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Skip to the page");
    await page.keyboard.press("Enter");
    expect(await focused()).toBe("main");

    await page.getByRole("button", { name: "Forget…" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused()).toBe("Forget…");
  });

  it("reports a lost server, and continues when it is back", async () => {
    const first = await openStage();
    const { port } = new URL(first.url);
    const { page } = await openPage(browser, first.url);
    await page.goto("/");
    await page.locator(".is-hero").waitFor();

    await first.close();
    await page.getByText("Reconnecting…").waitFor();
    const second = await openStage({ listen: { host: "127.0.0.1", port: Number(port) } });

    await page.getByText("Reconnecting…").waitFor({ state: "detached" });
    await page.close();
    await second.close();
  });
});

describe("with access tokens", { timeout: TIMEOUT_MS }, () => {
  let closed: Stage;

  beforeAll(async () => {
    closed = await openStage();
    await closed.server.context
      .guard("default")
      .run({ operation: "charge", key: "order-secret-77" }, () => "paid");
  });

  afterAll(() => closed.close());

  async function tokenOf(role: "operator" | "auditor" | "service"): Promise<{ id: string; token: string }> {
    return closed.server.context.access.create({ name: `a ${role}`, role });
  }

  async function signIn(token: string): Promise<{ page: Page; missteps: string[] }> {
    const opened = await openPage(browser, closed.url);
    await opened.page.goto("/keys");
    await opened.page.getByLabel("Access token").fill(token);
    await opened.page.getByRole("button", { name: "Sign in" }).click();
    return opened;
  }

  it("a wrong token is refused, a valid one opens the requested page, and signing out ends the session", async () => {
    const { token } = await tokenOf("operator");
    const { page } = await signIn("nt_wrong");
    await page.getByRole("alert").waitFor();
    expect(await violationsOn(page)).toEqual([]);
    await page.getByLabel("Access token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "order-secret-77" }).waitFor();
    await page.reload();
    await page.getByRole("link", { name: "order-secret-77" }).waitFor();

    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: "nevertwice_session", httpOnly: true, sameSite: "Strict" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.context().cookies()).toEqual([]);
  });

  it("an auditor sees the start of a key, no outcome and no actions", async () => {
    const { token } = await tokenOf("auditor");
    const { page, missteps } = await signIn(token);
    await page.getByRole("link", { name: "orde…" }).click();
    await page.getByText("Only operators see outcomes.").waitFor();

    expect(await page.getByRole("button", { name: /Release|Forget|Resolve/ }).count()).toBe(0);
    expect(await page.content()).not.toContain("order-secret-77");
    expect(missteps).toEqual([]);
  });

  it("a service gets a page that says that it has no access", async () => {
    const { token } = await tokenOf("service");
    const { page, missteps } = await signIn(token);

    await page.getByRole("heading", { name: "Not for services" }).waitFor();
    expect(missteps).toEqual([]);
  });

  it("revoking a token ends its session", async () => {
    const { id, token } = await tokenOf("operator");
    const { page } = await signIn(token);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.locator(".is-hero").waitFor();

    await closed.server.context.access.revoke(id);

    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  });
});
