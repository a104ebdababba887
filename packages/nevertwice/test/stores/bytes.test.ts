/**
 * Tests how many bytes a key takes: docs/stores.md says for each store what a key with an outcome of a kilobyte takes, and not
 * less than it is. Of Redis and Postgres it says the same about an outcome of 300 bytes.
 */
import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { ScanCommand } from "@aws-sdk/lib-dynamodb";
import { expect, type TestContext, test } from "vitest";
import { sqliteStore } from "../../dist/stores/sqlite.js";
import { utf8Bytes } from "../../src/core/bytes.ts";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { randomToken } from "../../src/core/token.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { documentedBytes, documentedSmallBytes } from "../stores-doc.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { endpointsIn, newPrefix, openEtcd } from "./etcd/stores.ts";
import { newStore } from "./mysql/pools.ts";
import { createDatabase, poolOf, query, until } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";
import { scratchFiles } from "./sqlite/scratch.ts";

/** Enough that a partly filled page or an extent hardly matters. */
const KEYS = 4_000;
const IN_FLIGHT = 100;
/** Enough that neither the memory of the server itself nor the last page of an index matters. */
const MANY_KEYS = 20_000;

/** Claims and completes this many keys in the way of a guard, with a fingerprint. */
async function fill(
  store: Store,
  { keys = KEYS, inFlight = IN_FLIGHT, outcomeBytes = 1_000 } = {},
): Promise<readonly string[]> {
  const ids: string[] = [];
  const fingerprint = `2:${"f".repeat(43)}`;
  const terms = { leaseMs: 30_000, retentionMs: 86_400_000, hold: false };
  async function lane(): Promise<void> {
    while (ids.length < keys) {
      const parts = { namespace: "shop", scope: "customer-17", operation: "charge", key: randomUUID() };
      const { id } = toIdentity(parts);
      ids.push(id);
      const token = randomToken();
      await store.claim({ id, parts, fingerprint, token, ...terms });
      await store.complete({ id, token, outcome: "x".repeat(outcomeBytes), retentionMs: terms.retentionMs });
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane));
  return ids;
}

/** Pages are filled to varying degrees, so the docs give a maximum; it must not be far too high either. */
async function isWritten({ annotate }: TestContext, store: string, bytes: number): Promise<void> {
  await annotate(`${store}: ${Math.round(bytes)} bytes for a key with an outcome of a kilobyte`);
  const written = documentedBytes(store);
  expect(written, `docs/stores.md says ${written} of ${store}, and it takes ${bytes}`).toBeGreaterThanOrEqual(
    bytes,
  );
  expect(written, `docs/stores.md says ${written} of ${store}, and it takes ${bytes}`).toBeLessThan(
    bytes * 1.6,
  );
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
  const ids = await fill(redisStore({ client, prefix: "bytes:" }), { keys: 500 });
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

/** A record's own memory, the table of its server that finds it, and that of the keys which expire. */
test("a key with an outcome of 300 bytes takes no more of Redis than is written", async (context) => {
  sharedUrl(context, "redis");
  const { url } = await startFor(context, () => startRedis());
  const client = ioredis(url);
  const store = redisStore({ client });
  const usedMemory = async () => {
    const info = await client.info("memory");
    const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1]);
    return read("used_memory") - read("mem_clients_normal");
  };
  await fill(store, { keys: IN_FLIGHT, outcomeBytes: 300 });
  const before = await usedMemory();
  const { length } = await fill(store, { keys: MANY_KEYS, outcomeBytes: 300 });
  const bytes = ((await usedMemory()) - before) / length;
  await context.annotate(`${Math.round(bytes)} bytes for a key`);
  const most = documentedSmallBytes("Redis", IN_FLIGHT);
  expect(bytes).toBeGreaterThan(most / 1.3);
  expect(bytes).toBeLessThanOrEqual(most);
});

/** The more calls are in flight, the more of them share a page, and the fewer completions find room on it. */
const CROWDS = [
  [1, 2_000],
  [IN_FLIGHT, MANY_KEYS],
] as const;

for (const [inFlight, keys] of CROWDS)
  test(`a key with an outcome of 300 bytes takes no more of Postgres than is written, with ${inFlight} in flight`, async (context) => {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    const client = poolOf(url);
    const store = postgresStore({ client });
    await store.migrate();
    const { length } = await fill(store, { keys, inFlight, outcomeBytes: 300 });
    // Sessions report their statistics when they end.
    await client.end();
    const counts = `SELECT pg_total_relation_size(relid)::int AS bytes, n_tup_upd::int AS updates, n_tup_hot_upd::int AS hot
      FROM pg_stat_user_tables WHERE relname = 'nevertwice_records'`;
    const read = async () => (await query<Record<"bytes" | "updates" | "hot", number>>(url, counts))[0];
    await until(async () => (await read())?.updates === length, 20_000);
    const { bytes = 0, updates = 0, hot = 0 } = (await read()) ?? {};
    const share = hot / updates;
    await context.annotate(
      `${Math.round(bytes / length)} bytes, ${share.toFixed(2)} of the updates heap-only`,
    );
    const most = documentedSmallBytes("Postgres", inFlight);
    expect(bytes / length).toBeGreaterThan(most / 1.3);
    expect(bytes / length).toBeLessThanOrEqual(most);
    expect(share).toBeGreaterThan(inFlight === 1 ? 0.99 : 0.5);
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
  const ids = await fill(dynamodbStore({ client, table }), { keys: 50 });
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table }));
  const bytes = Items.reduce((sum, item) => sum + itemBytes(item), 0);
  expect(Items).toHaveLength(ids.length);
  await isWritten(context, "DynamoDB", bytes / ids.length);
});

test("etcd", async (context) => {
  const prefix = newPrefix();
  const ids = await fill(openEtcd(context, { prefix }), { keys: 500 });
  const [endpoint = ""] = endpointsIn(sharedUrl(context, "etcd"));
  const range = { key: base64(`${prefix}/`), range_end: base64(`${prefix}0`) };
  const response = await fetch(`${endpoint}/v3/kv/range`, { method: "POST", body: JSON.stringify(range) });
  const { kvs } = (await response.json()) as { kvs: { key: string; value?: string }[] };
  expect(kvs).toHaveLength(2 * ids.length);
  const bytes = kvs.reduce((sum, { key, value = "" }) => sum + bytesIn(key) + bytesIn(value), 0);
  await isWritten(context, "etcd", bytes / ids.length);
});

const base64 = (text: string) => Buffer.from(text).toString("base64");
const bytesIn = (text: string) => Buffer.from(text, "base64").length;

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
