/** Tests that docs/stores.md has the figures of calls alone as the campaign measured them. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { storeCell } from "./stores-doc.ts";

const PAGE = new URL("../../../bench/results/calls-alone.md", import.meta.url);

const STORES = [
  "memory",
  "SQLite",
  "Postgres",
  "Redis",
  "MySQL",
  "DynamoDB",
  "Durable Objects",
  "D1",
  "Upstash",
  "etcd",
];

test.each(STORES)("%s", (store) => {
  const first = storeCell(store, "first call, p50 / p99");
  const replay = storeCell(store, "replay, p50 / p99");
  expect(readFileSync(PAGE, "utf8")).toContain(`- **${store}**: first call ${first}, replay ${replay}.`);
});
