/** Tests how many bytes a key takes whose outcome has a kilobyte: docs/stores.md says so for each store, and not less than it is. */
import { randomUUID } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { ScanCommand } from "@aws-sdk/lib-dynamodb";
import { expect, type TestContext, test } from "vitest";
import { sqliteStore } from "../../dist/stores/sqlite.js";
import { utf8Bytes } from "../../src/core/bytes.ts";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { newStore } from "./mysql/pools.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";
import { scratchFiles } from "./sqlite/scratch.ts";

const STORES = readFileSync(new URL("../../../../docs/stores.md", import.meta.url), "utf8");
/** Enough that a partly filled page or an extent hardly matters. */
const KEYS = 4_000;
const IN_FLIGHT = 100;

/** Claims and completes this many keys in the way of a guard, with a fingerprint. */
async function fill(store: Store, keys = KEYS): Promise<readonly string[]> {
  const ids: string[] = [];
  const fingerprint = `1:${"f".repeat(64)}`;
  const terms = { leaseMs: 30_000, retentionMs: 86_400_000, hold: false };
  async function lane(): Promise<void> {
    while (ids.length < keys) {
      const parts = { namespace: "shop", scope: "customer-17", operation: "charge", key: randomUUID() };
      const { id } = toIdentity(parts);
      ids.push(id);
      const token = randomUUID();
      await store.claim({ id, parts, fingerprint, token, ...terms });
      await store.complete({ id, token, outcome: "x".repeat(1_000), retentionMs: terms.retentionMs });
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return ids;
}

/** Pages are filled to varying degrees, so the docs give a maximum; it must not be far too high either. */
async function isWritten({ annotate }: TestContext, store: string, bytes: number): Promise<void> {
  await annotate(`${store}: ${Math.round(bytes)} bytes for a key with an outcome of a kilobyte`);
  const row = new RegExp(`^\\| ${store} \\|.*\\| ([\\d,]+) \\|$`, "m").exec(STORES)?.[1];
  const written = Number(row?.replaceAll(",", ""));
  expect(written, `docs/stores.md says ${row} of ${store}, and it takes ${bytes}`).toBeGreaterThanOrEqual(
    bytes,
  );
  expect(written, `docs/stores.md says ${row} of ${store}, and it takes ${bytes}`).toBeLessThan(bytes * 1.6);
}

const newFile = scratchFiles();

test("SQLite", async (context) => {
  const file = newFile();
  const store = sqliteStore({ file, synchronous: "normal" });
  const ids = await fill(store);
  await store.close();
  await isWritten(context, "SQLite", statSync(file).size / ids.length);
});

test("Redis", async (context) => {
  const client = ioredis(sharedUrl(context, "redis"));
  const ids = await fill(redisStore({ client, prefix: "bytes:" }), 500);
  const sizes = await Promise.all(ids.map((id) => client.call("MEMORY", "USAGE", `bytes:{${id}}`)));
  await isWritten(context, "Redis", sizes.reduce((sum: number, size) => sum + Number(size), 0) / ids.length);
});

test("Postgres", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const client = poolOf(url);
  const store = postgresStore({ client });
  await store.migrate();
  const ids = await fill(store);
  const [row] = await query(url, "SELECT pg_total_relation_size('nevertwice_records') AS bytes");
  await client.end();
  await isWritten(context, "Postgres", Number(row?.bytes) / ids.length);
});

test("MySQL", async (context) => {
  const { store, pool } = await newStore(context);
  const ids = await fill(store);
  await pool.query("ANALYZE TABLE nevertwice_records");
  const [rows] = await pool.query(
    `SELECT data_length + index_length AS bytes FROM information_schema.tables
     WHERE table_schema = DATABASE() AND table_name = 'nevertwice_records'`,
  );
  const [row] = rows as { bytes: number }[];
  await isWritten(context, "MySQL", Number(row?.bytes) / ids.length);
});

test("DynamoDB", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  const table = await newTable(client);
  const ids = await fill(dynamodbStore({ client, table }), 50);
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table }));
  const bytes = Items.reduce((sum, item) => sum + itemBytes(item), 0);
  expect(Items).toHaveLength(ids.length);
  await isWritten(context, "DynamoDB", bytes / ids.length);
});

/** Counts like the service: names and strings in UTF-8, numbers one byte for two digits plus one, booleans one. */
function itemBytes(item: Record<string, unknown>): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + utf8Bytes(name) + valueBytes(value), 0);
}

function valueBytes(value: unknown): number {
  if (typeof value === "string") return utf8Bytes(value);
  if (typeof value === "number") return Math.ceil(String(value).length / 2) + 1;
  if (typeof value === "object" && value !== null) return itemBytes(value as Record<string, unknown>) + 3;
  return 1;
}
