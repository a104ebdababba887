/** A server with example data, and a browser that records every error of a page. */
import { mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { withIdempotency } from "nevertwice/http/fetch";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { find, installMissing } from "../../nevertwice/test/services/packages.ts";
import { buildDashboard } from "../dashboard/build.js";
import { createServer, type NevertwiceServer } from "../src/server.ts";

const SOURCES = new URL("../dashboard/", import.meta.url);
const BUILT = new URL("../dist/dashboard/index.html", import.meta.url);
const IMAGES = new URL("../../../docs/images/", import.meta.url);

export const PHONE = { width: 360, height: 780 };
const DESK = { width: 1280, height: 860 };

/** Every page is shown in these ways. */
export const LOOKS = [
  { look: "light", colorScheme: "light" },
  { look: "dark", colorScheme: "dark" },
  { look: "phone", colorScheme: "light", viewport: PHONE },
] as const;

/** Builds the dashboard if it is missing or older than its sources. */
export async function built(): Promise<void> {
  const names = await readdir(SOURCES, { recursive: true });
  const changed = await Promise.all(names.map(async (name) => (await stat(new URL(name, SOURCES))).mtimeMs));
  const builtAt = await stat(BUILT).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );
  if (builtAt < Math.max(...changed)) await buildDashboard();
}

export async function launch(): Promise<Browser> {
  await installMissing(["chromium"]);
  return chromium.launch({
    executablePath: find("chromium"),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
}

export interface Stage {
  readonly server: NevertwiceServer;
  readonly url: string;
  close(): Promise<void>;
}

export async function openStage(config: Parameters<typeof createServer>[0] = {}): Promise<Stage> {
  const server = await createServer({
    store: "memory:",
    listen: { host: "127.0.0.1", port: 0 },
    logLevel: "silent",
    drain: 1_000,
    ...config,
  });
  const { url } = await server.listen();
  return { server, url, close: () => server.close() };
}

/** A page that records its errors: console errors, policy violations, and requests to other hosts. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<{ readonly page: Page; readonly missteps: string[] }> {
  const context = await browser.newContext({ baseURL: url, viewport: DESK, locale: "en-GB", ...options });
  const page = await context.newPage();
  const missteps: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) missteps.push(message.text());
  });
  page.on("pageerror", (error) => missteps.push(String(error)));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) missteps.push(`asked ${request.url()}`);
  });
  return { page, missteps };
}

/** The accessibility rules that the page breaks, and where. */
export async function violationsOn(page: Page): Promise<readonly string[]> {
  // "Legacy" leaves out frames of other origins, which the dashboard does not have, and needs no second page.
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

/** By how many pixels the page is wider than its window. */
export function overflowPx(page: Page): Promise<number> {
  return page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
}

const KEPT = [
  "overview-light",
  "overview-dark",
  "overview-phone",
  "keys-light",
  "keys-phone",
  "key-light",
  "unknown-light",
  "holds-dark",
  "holds-light",
  "outbox-dark",
  "outbox-light",
  "audit-light",
  "pipeline-light",
  "pipeline-dark",
  "pipeline-phone",
  "journey-light",
];

/**
 * Saved in docs/images if NEVERTWICE_SCREENSHOTS=1 is set. If NEVERTWICE_SCREENSHOTS is a folder, every picture is saved
 * there, to be looked at.
 */
export async function keepPicture(page: Page, name: string): Promise<void> {
  const folder = process.env.NEVERTWICE_SCREENSHOTS ?? "1";
  if (folder !== "1") await page.screenshot({ path: join(folder, `${name}.png`) });
  if (process.env.NEVERTWICE_SCREENSHOTS !== "1" || !KEPT.includes(name)) return;
  await mkdir(IMAGES, { recursive: true });
  await page.screenshot({ path: fileURLToPath(new URL(`dashboard-${name}.png`, IMAGES)) });
}

const ORDERS = ["charge-card", "send-receipt", "ship-order", "POST /orders"];

/** Keys in every state, holds of some resources, and replays. */
export async function fill({ server }: Stage): Promise<void> {
  const { namespace } = server.context.settings;
  const guard = server.context.guard(namespace, "gateway");
  for (let index = 0; index < 24; index++) {
    const operation = ORDERS[index % ORDERS.length] as string;
    const request = { operation, scope: `customer-${index % 7}`, key: `order-${4100 + index}` };
    const answer = { order: 4100 + index, status: "paid", amount: { value: 1999, currency: "EUR" } };
    for (let times = 0; times <= index % 4; times++) await guard.run(request, () => answer);
  }
  await fillClaims(server);
  await fillHolds(server);
  await server.context.figures.flush();
}

/** Mixed traffic until it is stopped, so that the charts have data. */
export function keepBusy({ server }: Stage): () => void {
  const guard = server.context.guard(server.context.settings.namespace, "gateway");
  let turn = 0;
  const timer = setInterval(() => {
    turn++;
    const strength = 3 + Math.round(2 * Math.sin(turn / 9));
    for (let index = 0; index < strength; index++) {
      const request = {
        operation: "charge-card",
        scope: "shop",
        key: `sale-${turn}-${index}`,
        fingerprint: turn,
      };
      const work = () =>
        new Promise((resolve) => setTimeout(resolve, 20 + ((turn * 7 + index * 13) % 60), "paid"));
      const sales = [guard.tryRun(request, work), guard.tryRun(request, work)];
      if (turn % 5 === 0) sales.push(guard.tryRun({ ...request, fingerprint: "another" }, work));
      void Promise.all(sales).then(() => guard.tryRun(request, work));
    }
  }, 100);
  return () => clearInterval(timer);
}

/** Sends one request through the HTTP layer, which stores the response under the key. */
export async function answerOnce({ server }: Stage, key: string, response: Response): Promise<void> {
  const guard = server.context.guard(server.context.settings.namespace);
  const handle = withIdempotency(guard, { scope: () => "customer-7" }, () => response);
  const sent = { method: "POST", headers: { "Idempotency-Key": `"${key}"` }, body: '{"amount":4200}' };
  await (await handle(new Request("http://shop.example/orders", sent))).arrayBuffer();
}

/** The id of the newest key with this text. */
export async function findId({ server }: Stage, key: string): Promise<string> {
  const guard = server.context.guard(server.context.settings.namespace);
  const found = (await guard.list({ limit: 1_000 })).records.find((record) => record.key === key);
  if (found === undefined) throw new Error(`there is no key ${key}`);
  return found.id;
}

async function fillClaims(server: NevertwiceServer): Promise<void> {
  const claims = server.context.claims(server.context.settings.namespace);
  for (let index = 0; index < 4; index++)
    await claims.claim({
      operation: "refund",
      scope: "billing",
      key: `refund-${810 + index}`,
      leaseMs: 120_000,
    });
  for (let index = 0; index < 3; index++) {
    const claim = await claims.claim({
      operation: "payout",
      scope: "billing",
      key: `payout-${77 + index}`,
      onLapsed: "hold",
    });
    if (claim.status === "new") await claims.abandon({ id: claim.id, token: claim.token, as: "unknown" });
  }
  const released = await claims.claim({ operation: "refund", scope: "billing", key: "refund-900" });
  if (released.status === "new")
    await claims.abandon({ id: released.id, token: released.token, as: "released" });
}

async function fillHolds(server: NevertwiceServer): Promise<void> {
  const holds = server.context.holds(server.context.settings.namespace);
  if (holds === undefined) return;
  const capacities = { "hall-1/row-A": 12, "hall-1/row-B": 8, "van 14 · Friday": 3, "room-101": 1 };
  for (const [resource, capacity] of Object.entries(capacities))
    await holds.resources.declare({ resource, capacity, key: `declare ${resource}`, scope: "stage" });
  let number = 0;
  for (const [resource, count] of [
    ["hall-1/row-A", 7],
    ["hall-1/row-B", 2],
    ["van 14 · Friday", 3],
  ] as const)
    for (let index = 0; index < count; index++) {
      number++;
      const placed = await holds.placeHold({
        resource,
        requester: `customer-${number}`,
        durationMs: 60_000 + number * 45_000,
        key: `hold ${number}`,
        scope: "stage",
      });
      if (placed.ok && number % 4 === 0)
        await holds.confirm({ id: placed.id, key: `confirm ${number}`, scope: "stage" });
    }
}
