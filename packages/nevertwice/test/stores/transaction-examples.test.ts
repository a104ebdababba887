/** Tests examples/transaction-*.js and examples/hold-in-transaction.js as a reader runs them, on a real Postgres and a real MariaDB. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { sharedUrl } from "../services/services.ts";
import { createDatabase } from "./postgres/database.ts";
import { STORY } from "./transaction/story.ts";

test.for([
  ["drizzle", "postgres"],
  ["knex", "postgres"],
  ["kysely", "postgres"],
  ["drizzle-mysql", "mysql"],
  ["knex-mysql", "mysql"],
] as const)("the example of a transaction with %s pays once", async ([name, service], context) => {
  const program = fileURLToPath(new URL(`../../../../examples/transaction-${name}.js`, import.meta.url));
  const env = { ...process.env, DATABASE_URL: sharedUrl(context, service) };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env, timeout: 15_000 });
  expect(stdout.trim().split("\n")).toEqual(STORY);
});

test("the example of a hold in a transaction books one seat once", async (context) => {
  const program = fileURLToPath(new URL("../../../../examples/hold-in-transaction.js", import.meta.url));
  const DATABASE_URL = await createDatabase(sharedUrl(context, "postgres"));
  const env = { ...process.env, DATABASE_URL };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env, timeout: 15_000 });
  expect(stdout.trim().split("\n")).toEqual([
    "too expensive: over the limit",
    "two clicks: booked and booked",
    "another order: resource-unavailable",
    "orders: order-2; holds: 1; audit: true",
  ]);
});
