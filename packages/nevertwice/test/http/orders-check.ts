/** What the form of a shop does when it is sent twice, whichever framework carries out its action. */
import { randomUUID } from "node:crypto";
import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";

const KEY_FIELD = "idempotency_key";
const AT_ONCE = 5;

interface Order {
  readonly key?: string;
  readonly item?: string;
  readonly customer?: string;
}

interface HtmlForm {
  readonly action: URL;
  readonly isMultipart: boolean;
  /** The value of each field, as the HTML has it. */
  readonly fields: ReadonlyMap<string, string>;
}

function attributeOf(tag: string, name: string): string | undefined {
  return new RegExp(`\\s${name}="([^"]*)"`, "i").exec(tag)?.[1]?.replaceAll("&amp;", "&");
}

function readForm(html: string, page: string): HtmlForm {
  const [form, tag] = /(<form\b[^>]*>).*?<\/form>/s.exec(html) ?? [];
  if (form === undefined || tag === undefined) throw new Error(`there is no form in ${html}`);
  const inputs = form.match(/<input\b[^>]*>/g) ?? [];
  return {
    action: new URL(attributeOf(tag, "action") ?? "", page),
    isMultipart: attributeOf(tag, "enctype") === "multipart/form-data",
    fields: new Map(
      inputs.map((input) => [attributeOf(input, "name") ?? "", attributeOf(input, "value") ?? ""]),
    ),
  };
}

function encodeForm(
  { isMultipart }: HtmlForm,
  fields: ReadonlyMap<string, string>,
): FormData | URLSearchParams {
  if (!isMultipart) return new URLSearchParams([...fields]);
  const body = new FormData();
  for (const [name, value] of fields) body.append(name, value);
  return body;
}

/** As browsers do that ran the script of the page but none of the framework's: `orders` counts what was placed. */
export async function checkOrders(url: string, orders: () => Promise<number>): Promise<void> {
  const page = `${url}/orders`;
  const [html, anotherHtml] = await Promise.all([readPage(page), readPage(page)]);
  expect(anotherHtml, "nothing in the page is for one visitor").toBe(html);
  const form = readForm(html, page);
  expect(form.fields.get(KEY_FIELD), "the key is not in the HTML").toBe("");

  const send = ({ key = "", item = "tea", customer = "alice" }: Order) => {
    const body = encodeForm(form, new Map(form.fields).set("item", item).set(KEY_FIELD, key));
    const headers = { cookie: `customer=${customer}`, origin: url, accept: "text/html" };
    return fetch(form.action, { method: "POST", redirect: "manual", headers, body });
  };
  /** The path of the order's page, or `refused`. */
  const placed = async (order: Order) => {
    const response = await send(order);
    const path = new URL(response.headers.get("location") ?? "", page).pathname;
    if (response.status === 303 && path !== "/orders/refused") return path;
    expect([303, 400, 422], await response.text()).toContain(response.status);
    return "refused";
  };

  expect(await placed({}), "without a key").toBe("refused");
  expect(await orders()).toBe(0);

  const key = randomUUID();
  const [path = "", ...others] = await Promise.all(Array.from({ length: AT_ONCE }, () => placed({ key })));
  expect(path).toMatch(/^\/orders\/.{8}$/);
  expect(new Set(others), "all see one order").toEqual(new Set([path]));
  expect(await orders()).toBe(1);

  expect(await placed({ key, item: "coffee" }), "edited").toBe("refused");
  expect(await orders()).toBe(1);

  expect(await placed({ key, customer: "bob" }), "another customer").not.toBe(path);
  expect(await orders()).toBe(2);
}

async function readPage(url: string): Promise<string> {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  expect(response.status).toBe(200);
  return response.text();
}

/** The same page with all of its scripts. `orders` counts what was placed, by anybody. */
export async function checkOrdersInBrowser(
  browser: Browser,
  url: string,
  orders: () => Promise<number>,
): Promise<void> {
  const before = await orders();
  const page = await browser.newPage();
  await page.goto(`${url}/orders`, { waitUntil: "networkidle" });
  const first = await buy(page, "button.click(); button.click();");
  expect((await orders()) - before, "two clicks").toBe(1);

  await page.goto(`${url}/orders`, { waitUntil: "networkidle" });
  const second = await buy(page, "button.click();");
  expect((await orders()) - before, "a form that was opened again").toBe(2);
  expect(second).not.toBe(first);
  await page.close();
}

/** The text of the order's page. */
async function buy(page: Page, clicks: string): Promise<string | null> {
  await page.fill("[name=item]", "tea");
  await page.evaluate(`{ const button = document.querySelector("form button"); ${clicks} }`);
  return page.textContent("#order");
}
