/** Tests signing in to the dashboard, and unknown addresses, in a real browser. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { run, type Serving, serving, stop } from "./cli-process.ts";
import { built, launch, openPage, openStage, type Stage, violationsOn } from "./dashboard-stage.ts";

const TIMEOUT_MS = 60_000;
let browser: Browser;

beforeAll(async () => {
  await built();
  browser = await launch();
}, 600_000);

afterAll(() => browser?.close());

async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Empty for a store in the working directory of both processes; else the flags that the page tells to add. */
const SETTINGS = [
  { settings: [], namespace: "default" },
  { settings: ["--store", "sqlite:./other.db", "--namespace", "shop"], namespace: "shop" },
];

describe.each(SETTINGS)("the command on the page of $namespace", { timeout: TIMEOUT_MS }, (given) => {
  const { settings, namespace } = given;
  let server: Serving;

  beforeAll(async () => {
    await run(["access", "create", "--name", "first", "--role", "service", ...settings]);
    server = await serving(...settings);
  });

  afterAll(() => stop(server));

  async function commandOn(page: Page): Promise<readonly string[]> {
    const [program, ...args] = (await page.locator("code.command").innerText()).split(" ");
    expect(program).toBe("nevertwice");
    return [...args, ...settings];
  }

  it("of the sign-in page creates a token that opens the dashboard", async () => {
    const { page } = await openPage(browser, server.url);
    await page.goto("/keys");
    const { code, out, err } = await run(await commandOn(page));
    expect([code, out.length], err.join("\n")).toEqual([0, 1]);
    expect(await violationsOn(page)).toEqual([]);
    await signIn(page, out[0] as string);
    await page.getByRole("heading", { name: "Keys", exact: true }).waitFor();
    await page.getByText(`operator · ${namespace}`).waitFor();
    await page.context().close();
  });

  it("that a service sees creates such a token too", async () => {
    const made = await run(["access", "create", "--name", "shop", "--role", "service", ...settings]);
    const { page } = await openPage(browser, server.url);
    await page.goto("/");
    await signIn(page, made.out[0] as string);
    await page.getByRole("heading", { name: "Not for services" }).waitFor();
    const { code, out, err } = await run(await commandOn(page));
    expect(code, err.join("\n")).toBe(0);
    await page.getByRole("button", { name: "Sign out" }).click();
    await signIn(page, out[0] as string);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.context().close();
  });
});

const LOOKS = [
  { look: "light", colorScheme: "light" },
  { look: "dark", colorScheme: "dark" },
] as const;

describe.each(LOOKS)("an address without a page, $look", { timeout: TIMEOUT_MS }, ({ colorScheme }) => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await openStage();
    await stage.server.context.access.create({ name: "first", role: "operator" });
  });

  afterAll(() => stage.close());

  it.each(["/keyz", "/keys/a/b", "/v1/nothing"])("%s shows a page with links to all pages", async (path) => {
    const { page, missteps } = await openPage(browser, stage.url, { colorScheme, reducedMotion: "reduce" });
    const response = await page.goto(path);
    expect(response?.status()).toBe(404);
    await page.getByRole("heading", { name: "Page not found" }).waitFor();
    expect(await page.title()).toBe("Page not found · nevertwice");
    await page.getByText(`nothing at ${path}`).waitFor();
    expect(await violationsOn(page)).toEqual([]);
    expect(missteps.filter((misstep) => !misstep.includes("404 (Not Found)"))).toEqual([]);
    await page.getByRole("link", { name: "Holds" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/holds");
    await page.context().close();
  });

  it("an unknown error code shows a page too", async () => {
    const { page } = await openPage(browser, stage.url, { colorScheme });
    expect((await page.goto("/errors/none"))?.status()).toBe(404);
    await page.getByRole("heading", { name: "Unknown error code" }).waitFor();
    await page.context().close();
  });
});

describe("a dashboard that gets no stream", { timeout: TIMEOUT_MS }, () => {
  it("still shows figures, and does not report a lost server", async () => {
    const stage = await openStage();
    const controller = new AbortController();
    const { signal } = controller;
    for (let index = 0; index < 8; index++)
      expect((await fetch(`${stage.url}/v1/live/stream`, { signal })).status).toBe(200);
    const { page } = await openPage(browser, stage.url);
    const asked: string[] = [];
    page.on("response", (response) => {
      const { pathname } = new URL(response.url());
      if (pathname.startsWith("/v1/live")) asked.push(`${pathname} ${response.status()}`);
    });
    await page.goto("/");
    await page.locator(".is-hero").waitFor();
    await vi.waitFor(() => expect(asked.filter((one) => one === "/v1/live 200").length).toBeGreaterThan(1), {
      timeout: 20_000,
    });
    expect(asked).toContain("/v1/live/stream 429");
    expect(await page.getByText("Reconnecting…").count()).toBe(0);
    await page.context().close();
    controller.abort();
    await stage.close();
  });
});
