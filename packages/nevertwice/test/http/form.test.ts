/** Tests the hidden field of forms in a real browser: clicks, the ways back, caches, and forms that scripts send. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterEach, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { formKey, keyAttributes, keyInput, keyScript } from "../../src/http/form.ts";
import { idempotency } from "../../src/http/node.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { type ChromiumOptions, launchChromium } from "../services/chromium.ts";
import { installMissing } from "../services/packages.ts";

/** Longer than any wait here takes on a slow machine. */
const LONG_MS = 60_000;

/** A shop whose page may be cached by everybody, and whose orders are guarded by the key in the form. */
async function open(input = keyInput(), headers: Record<string, string> = {}) {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const orders: string[] = [];
  const arrivals: string[] = [];
  const gate = { isOpen: true, opened: deferred() };
  const options = {
    scope: "anyone",
    keyField: "idempotency_key",
    required: true,
    onPending: "wait",
  } as const;
  const guarded = idempotency(guard, { ...options, waitMs: LONG_MS })((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const text = Buffer.concat(chunks).toString();
      orders.push(/amount(?:=|"\r\n\r\n)(\d+)/.exec(text)?.[1] ?? text);
      if (!gate.isOpen) await gate.opened.promise;
      response.setHeader("content-type", "text/html").end(`<p id="order">order ${orders.length}</p>`);
    });
  });
  const page = (type: string) =>
    `<!doctype html><form method="post" action="/orders" enctype="${type}">
     <input name="amount" value="1">${input}<button>Buy</button><button type="reset">Clear</button></form>`;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    if (request.method === "POST") {
      arrivals.push(request.url ?? "");
      void guarded(request, response);
      return;
    }
    if (request.url === "/arrivals") {
      response.setHeader("cache-control", "no-store").end(String(arrivals.length));
      return;
    }
    const type = request.url === "/files" ? "multipart/form-data" : "application/x-www-form-urlencoded";
    response.writeHead(200, {
      "content-type": "text/html",
      "cache-control": "public, max-age=3600",
      ...headers,
    });
    response.end(page(type));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    orders,
    arrivals,
    hold: () => {
      gate.isOpen = false;
    },
    letGo: () => gate.opened.resolve(),
  };
}

const servers: Server[] = [];
const browsers: Browser[] = [];

beforeAll(async () => {
  await installMissing(["chromium"]);
}, 600_000);

afterEach(async () => {
  for (const browser of browsers.splice(0)) await browser.close();
  for (const server of servers.splice(0)) server.closeAllConnections();
});

interface BrowserOptions extends ChromiumOptions {
  readonly javaScriptEnabled?: boolean;
}

async function browse(context: TestContext, options: BrowserOptions = {}): Promise<BrowserContext> {
  const { javaScriptEnabled = true, ...others } = options;
  const browser = await launchChromium(context, others);
  browsers.push(browser);
  return browser.newContext({ javaScriptEnabled });
}

const click = (page: Page) => page.evaluate("document.querySelector('button').click()");
const readOrder = (page: Page) => page.textContent("#order");
/** The value of the hidden field. */
const readKey = (page: Page) => page.evaluate("document.querySelector('[name=idempotency_key]').value");

/** Playwright's own way back waits for a page to load, which a kept one does not. */
async function goBack(page: Page): Promise<void> {
  await page.evaluate("setTimeout(() => history.back()); 0");
  await page.waitForSelector("[name=amount]");
}

async function buy(page: Page): Promise<string | null> {
  await click(page);
  return readOrder(page);
}

describe("a form with a hidden key, in Chromium,", { timeout: 120_000 }, () => {
  for (const path of ["/", "/files"])
    it(`is carried out once for two clicks, on the page ${path}`, async (context) => {
      const { url, orders, arrivals, hold, letGo } = await open();
      const page = await (await browse(context)).newPage();
      await page.goto(`${url}${path}`);
      hold();
      await page.evaluate(`(async () => {
        document.querySelector("button").click();
        while ((await (await fetch("/arrivals")).text()) !== "1");
        document.querySelector("button").click();
      })(); 0`);
      await expect.poll(() => arrivals.length, { timeout: LONG_MS }).toBe(2);
      letGo();
      expect(await readOrder(page)).toBe("order 1");
      expect(orders).toEqual(["1"]);
    });

  for (const keepsPages of [false, true])
    it(`is carried out once if the user comes back and sends it again, pages kept: ${keepsPages}`, async (context) => {
      const { url, orders, arrivals } = await open();
      const page = await (await browse(context, { keepsPages })).newPage();
      await page.goto(url);
      expect(await buy(page)).toBe("order 1");
      await goBack(page);
      expect(await buy(page)).toBe("order 1");
      await goBack(page);
      await page.fill("[name=amount]", "2");
      await click(page);
      await page.waitForFunction("document.body.innerText.includes('conflict')");
      expect([orders, arrivals.length]).toEqual([["1"], 3]);
    });

  it("is carried out once if the answer is reloaded", async (context) => {
    const { url, orders, arrivals } = await open();
    const page = await (await browse(context)).newPage();
    await page.goto(url);
    await buy(page);
    await page.reload();
    expect(await readOrder(page)).toBe("order 1");
    expect([orders, arrivals.length]).toEqual([["1"], 2]);
  });

  it("has a new key each time the page is opened, although all users get it from one cache", async (context) => {
    const { url, orders } = await open();
    const browser = await browse(context);
    const html = await (await fetch(url)).text();
    expect(html).toContain(keyInput());
    for (const order of ["order 1", "order 2"]) {
      const page = await browser.newPage();
      await page.goto(url);
      expect(await readKey(page)).toBe("");
      expect(await buy(page)).toBe(order);
    }
    const page = await browser.newPage();
    await page.goto(url);
    await page.evaluate("new FormData(document.forms[0])");
    expect(await readKey(page)).not.toBe("");
    await page.reload();
    expect(await readKey(page)).toBe("");
    expect(orders).toEqual(["1", "1"]);
  });

  it("sends its key by scripts too, and has a new one after a reset", async (context) => {
    const { url, orders } = await open();
    const page = await (await browse(context)).newPage();
    await page.goto(`${url}/files`);
    const send = `fetch("/orders", { method: "POST", body: new FormData(document.forms[0]) }).then((r) => r.text())`;
    expect([await page.evaluate(send), await page.evaluate(send)]).toEqual(
      new Array(2).fill('<p id="order">order 1</p>'),
    );
    await page.evaluate("document.forms[0].reset()");
    expect(await page.evaluate(send)).toContain("order 2");
    await page.evaluate("document.forms[0].submit()");
    expect(await readOrder(page)).toBe("order 2");
    expect(orders).toEqual(["1", "1"]);
  });

  it("is refused without JavaScript, and nothing happens", async (context) => {
    const { url, orders } = await open();
    const page = await (await browse(context, { javaScriptEnabled: false })).newPage();
    await page.goto(url);
    await page.locator("button").first().click();
    expect(await page.content()).toContain("key-invalid");
    expect(orders).toEqual([]);
  });

  it("obeys the policy of its page for scripts", async (context) => {
    const policy = { "content-security-policy": "script-src 'nonce-n1'" };
    const { url, orders } = await open(keyInput({ nonce: "n1" }), policy);
    const page = await (await browse(context)).newPage();
    await page.goto(url);
    await page.locator("button").first().click();
    expect(await readOrder(page)).toBe("order 1");
    expect(orders).toEqual(["1"]);
  });
});

describe("the hidden field", () => {
  it("is marked for the script, and never has a value", () => {
    expect(keyAttributes()).toEqual({ type: "hidden", name: "idempotency_key", "data-idempotency-key": "" });
    const html = keyInput({ name: 'a"b', nonce: "x<y" });
    expect(html).toBe(
      `<input type="hidden" name="a&quot;b" data-idempotency-key=""><script nonce="x&lt;y">${keyScript}</script>`,
    );
    expect(keyScript).not.toContain("</");
  });
});

describe("formKey", () => {
  const form = (...values: readonly (string | Blob)[]) => {
    const data = new FormData();
    for (const value of values) data.append("idempotency_key", value as string);
    return data;
  };

  it("returns the key of a form that was sent", () => {
    expect(formKey(form("k1"))).toBe("k1");
    const named = new FormData();
    named.set("ClientToken", "k2");
    expect(formKey(named, { name: "ClientToken" })).toBe("k2");
  });

  it.each([
    ["absent", [], "key-missing"],
    ["empty", [""], "key-missing"],
    ["there twice", ["a", "a"], "key-invalid"],
    ["a file", [new Blob(["a"])], "key-invalid"],
    ["too long", ["a".repeat(256)], "key-invalid"],
  ])("refuses a field that is %s", (_problem, values, code) => {
    expect(() => formKey(form(...values))).toThrow(code);
  });
});
