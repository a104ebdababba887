/** Tests the example of a Worker with Hono, with the bindings that its wrangler.jsonc names. Needs the build. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Runtime, startRuntime } from "./runtime.ts";

const FOLDER = new URL("../../../../examples/workers-hono/", import.meta.url);

interface WranglerConfiguration {
  readonly main: string;
  readonly compatibility_date: string;
  readonly compatibility_flags: readonly string[];
  readonly durable_objects: {
    readonly bindings: readonly { readonly name: string; readonly class_name: string }[];
  };
  readonly migrations: readonly { readonly new_sqlite_classes: readonly string[] }[];
}

function readConfiguration(): WranglerConfiguration {
  const text = readFileSync(new URL("wrangler.jsonc", FOLDER), "utf8");
  return JSON.parse(text.replace(/^\s*\/\/.*$/gm, ""));
}

let runtime: Runtime;
beforeAll(async () => {
  const { main, compatibility_date, compatibility_flags, durable_objects, migrations } = readConfiguration();
  const withSqlite = migrations.flatMap((each) => each.new_sqlite_classes);
  const objects = durable_objects.bindings.map(({ name, class_name }) => [
    name,
    { className: class_name, useSQLite: withSqlite.includes(class_name) },
  ]);
  runtime = await startRuntime(fileURLToPath(new URL(main, FOLDER)), compatibility_flags, {
    compatibilityDate: compatibility_date,
    durableObjects: Object.fromEntries(objects),
  });
});
afterAll(() => runtime.stop());

interface Payment {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly receipt: string;
}

async function pay(key: string, amount = 5, customer = "alice"): Promise<Payment> {
  const headers = {
    authorization: `Bearer ${customer}`,
    "content-type": "application/json",
    "idempotency-key": key,
  };
  const body = JSON.stringify({ amount });
  const response = await runtime.miniflare.dispatchFetch("http://worker/payments", {
    method: "POST",
    headers,
    body,
  });
  const { receipt } = (await response.json()) as { receipt: string };
  return { status: response.status, isReplayed: response.headers.has("idempotent-replayed"), receipt };
}

const totals = () => runtime.ask<{ charged: number; mailed: number }>("/");

test("a payment is charged once, and its retry gets the same response", async () => {
  const key = randomUUID();
  const before = await totals();
  const first = await pay(key);
  expect(first).toMatchObject({ status: 201, isReplayed: false });
  expect(await pay(key)).toEqual({ ...first, isReplayed: true });
  expect((await totals()).charged).toBe(before.charged + 1);
});

test("another amount under the same key is refused, and another customer's key is another one", async () => {
  const key = randomUUID();
  const { receipt } = await pay(key);
  expect(await pay(key, 6)).toMatchObject({ status: 422 });
  const other = await pay(key, 6, "bob");
  expect(other.status).toBe(201);
  expect(other.receipt).not.toBe(receipt);
});

test("overlapping duplicates are charged once, and all get the same receipt", async () => {
  const key = randomUUID();
  const before = await totals();
  const payments = await Promise.all(Array.from({ length: 8 }, () => pay(key)));
  expect(new Set(payments.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(payments.map(({ receipt }) => receipt)).size).toBe(1);
  expect(payments.filter(({ isReplayed }) => !isReplayed)).toHaveLength(1);
  expect((await totals()).charged).toBe(before.charged + 1);
});

test("the receipt is mailed after the response, and once", async () => {
  await expect.poll(async () => (await totals()).mailed).toBe((await totals()).charged);
  const before = await totals();
  const { receipt } = await pay(randomUUID());
  await expect.poll(async () => (await totals()).mailed).toBe(before.mailed + 1);
  await runtime.miniflare.dispatchFetch(`http://worker/receipts/${receipt}/mail`, { method: "POST" });
  expect((await totals()).mailed).toBe(before.mailed + 1);
});
