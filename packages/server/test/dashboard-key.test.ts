/** Tests the page of one key in a real browser: its stored HTTP response, its fingerprint and its derived keys. */
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { scratchFolder } from "../../nevertwice/test/scratch-folder.ts";
import {
  answerOnce,
  built,
  findId,
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

beforeAll(async () => {
  await built();
  [browser, stage] = await Promise.all([launch(), openStage()]);
}, 600_000);

afterAll(async () => {
  await browser?.close();
  await stage?.close();
});

function guard() {
  return stage.server.context.guard("default");
}

async function answered(key: string, response: Response): Promise<string> {
  await answerOnce(stage, key, response);
  return findId(stage, key);
}

const RECEIPT = `{"id":"ch_1","amount":{"value":4200,"currency":"EUR"},"reference":12345678901234567890,"lines":[],"paid":true}`;
const SCRIPT = `<h1 id="evil">Hello</h1><img src="/assets/none.png" onerror="document.title='evil'"><script>document.title="evil"</script>`;

async function openKey(page: Page, id: string): Promise<void> {
  await page.goto(`/keys/${id}`);
  await page.getByRole("heading", { name: "Outcome" }).waitFor();
}

describe.each(LOOKS)("on $look", ({ look, ...options }) => {
  it("a stored response is shown with its status, its headers and indented JSON", async () => {
    const headers = { "content-type": "application/json", location: "/orders/17" };
    const id = await answered(`order-${look}`, new Response(RECEIPT, { status: 201, headers }));
    const { page, missteps } = await openPage(browser, stage.url, { ...options, reducedMotion: "reduce" });

    await openKey(page, id);

    const outcome = page.getByRole("region", { name: "Outcome" });
    expect(await outcome.locator(".response-status").innerText()).toBe("201 Created");
    expect(await outcome.getByText("/orders/17").count()).toBe(1);
    expect(await outcome.locator("pre").innerText()).toBe(
      `{
  "id": "ch_1",
  "amount": {
    "value": 4200,
    "currency": "EUR"
  },
  "reference": 12345678901234567890,
  "lines": [],
  "paid": true
}`,
    );
    expect(await page.getByText(/^2:[\w-]{43}$/).count()).toBe(1);
    expect(await violationsOn(page)).toEqual([]);
    expect(await overflowPx(page)).toBeLessThanOrEqual(0);
    expect(missteps).toEqual([]);
    await keepPicture(page, `response-${look}`);
    await page.context().close();
  });
});

it("a stored page is text: it is neither rendered nor run, and loads nothing", async () => {
  const id = await answered("hostile", new Response(SCRIPT, { headers: { "content-type": "text/html" } }));
  const { page, missteps } = await openPage(browser, stage.url);

  await openKey(page, id);

  expect(await page.locator(".response pre").innerText()).toBe(SCRIPT);
  expect(await page.locator("#evil, main img, main script, main iframe").count()).toBe(0);
  expect(await page.title()).not.toContain("evil");
  expect(missteps).toEqual([]);
  await page.context().close();
});

it("an image is described by its type and size, and an empty body as empty", async () => {
  const png = new Uint8Array(2_345).fill(255);
  const image = await answered("image", new Response(png, { headers: { "content-type": "image/png" } }));
  const empty = await answered("empty", new Response(null, { status: 204 }));
  const { page } = await openPage(browser, stage.url);

  await openKey(page, image);
  expect(await page.getByText("image/png · 2.3 kB").count()).toBe(1);
  await openKey(page, empty);
  expect(await page.getByText("The body is empty.").count()).toBe(1);
  await page.context().close();
});

it("other outcomes are shown as JSON", async () => {
  await guard().run({ operation: "charge", key: "plain" }, () => ({ receipt: 7 }));
  const { page } = await openPage(browser, stage.url);
  await openKey(page, await findId(stage, "plain"));
  expect(await page.getByRole("region", { name: "Outcome" }).locator("pre").innerText()).toBe(
    '{\n  "receipt": 7\n}',
  );
  await page.context().close();
});

const TRIED = { operation: "charge", key: "tried" };
/** A record keeps the latest 32 attempts before the present one. */
const RELEASED = 32;

/** Many attempts are released; then one lapses, one renews its claim three times and gives it up, and one completes. */
async function tryAgainAndAgain({ server }: Stage): Promise<void> {
  const claims = server.context.claims("default");
  const claim = (more: object = {}) =>
    vi.waitFor(async () => {
      const answer = await claims.claim({ ...TRIED, ...more });
      // Pending until the lease of the attempt before it has ended.
      if (answer.status !== "new") throw new Error(`the claim is ${answer.status}`);
      return { id: answer.id, token: answer.token };
    });
  for (let number = 1; number <= RELEASED; number++)
    await claims.abandon({ ...(await claim()), as: "released" });
  await claim({ leaseMs: 10 });
  const takenOver = await claim();
  for (let renewal = 0; renewal < 3; renewal++) await claims.renew(takenOver);
  await claims.abandon({ ...takenOver, as: "released" });
  await claims.complete({ ...(await claim()), value: "paid" });
}

it("every attempt and renewal is shown from the store, after the server was restarted", async () => {
  const folder = await scratchFolder({ onTestFinished });
  const store = `sqlite:${join(folder, "keys.db")}`;
  const before = await openStage({ store });
  await tryAgainAndAgain(before);
  await before.close();
  const restarted = await openStage({ store });
  onTestFinished(() => restarted.close());
  const { page, missteps } = await openPage(browser, restarted.url);

  await openKey(page, await findId(restarted, "tried"));

  const moments = page.locator(".moment");
  const texts = (await moments.allInnerTexts()).map((text) => text.split("\n").filter(Boolean).slice(0, 2));
  const [lapsed, renewed, last] = [RELEASED + 1, RELEASED + 2, RELEASED + 3];
  expect(texts[0]).toEqual(["2 earlier attempts", "no longer stored"]);
  expect(texts.slice(1, 3)).toEqual([
    ["Claimed", "attempt 3"],
    ["Abandoned as released", expect.stringMatching(/^attempt 3, after /)],
  ]);
  expect(texts.slice(-8)).toEqual([
    ["Claimed", `attempt ${lapsed}`],
    ["Lapsed", expect.stringMatching(`^attempt ${lapsed}, after .`)],
    ["Taken over", `attempt ${renewed}, after a lapse`],
    ["Renewed×3", "the last time"],
    ["Abandoned as released", expect.stringMatching(`^attempt ${renewed}, after .`)],
    ["Claimed", `attempt ${last}`],
    ["Completed", expect.stringMatching(`^attempt ${last}, after .`)],
    ["Answers retries", expect.stringMatching(/^for .* more$/)],
  ]);
  expect(missteps).toEqual([]);
  await page.context().close();
});

it("an operator derives the key of an effect by its name", async () => {
  let derived = "";
  await guard().run({ operation: "charge", key: "derive" }, (attempt) => {
    derived = attempt.deriveKey("psp");
  });
  const { page } = await openPage(browser, stage.url);
  await openKey(page, await findId(stage, "derive"));

  await page.getByLabel("Name of the effect").fill("psp");
  await page.getByRole("button", { name: "Derive" }).click();

  await page.getByText(derived).waitFor();
  expect(await violationsOn(page)).toEqual([]);
  await page.context().close();
});

it("an auditor sees neither the response nor the form for derived keys", async () => {
  const own = await openStage();
  onTestFinished(() => own.close());
  await answerOnce(own, "audited", new Response("secret"));
  const { token } = await own.server.context.access.create({ name: "ann", role: "auditor" });
  const { page } = await openPage(browser, own.url);
  await page.goto("/");
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "Keys" }).waitFor();

  await openKey(page, await findId(own, "audited"));

  expect(await page.getByText("Only operators see outcomes.").count()).toBe(1);
  expect(await page.getByText(/secret|Derived keys|Fingerprint/).count()).toBe(0);
  await page.context().close();
});
