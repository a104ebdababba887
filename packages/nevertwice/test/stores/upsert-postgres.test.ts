/** Tests examples/upsert-postgres.js as a reader runs it, on a real Postgres. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, query } from "./postgres/database.ts";

const PROGRAM = fileURLToPath(new URL("../../../../examples/upsert-postgres.js", import.meta.url));

test("the example of writes on Postgres does what it claims, and leaves nothing behind", async (context) => {
  const DATABASE_URL = await createDatabase(sharedUrl(context, "postgres"));
  const env = { ...process.env, DATABASE_URL };
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM], { env, timeout: 15_000 });
  expect(stdout.trim().split("\n")).toEqual([
    "upsert: two deliveries, version 1",
    "out of order: offline, as the latest event says",
    "within one second: online, as the highest sequence number says",
    "10 writers of version 4: 1 wrote version 5, 9 were told concurrent-modification",
    "10 that add one, reading again when told to: 10 more",
    "the same 10 again: none more",
  ]);
  expect(await query(DATABASE_URL, "SELECT 1 FROM pg_tables WHERE tablename = 'assets'")).toEqual([]);
});
