/** Tests examples/transaction-*.js as a reader runs them, on a real Postgres and a real MariaDB. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { sharedUrl } from "../services/services.ts";
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
