/** Stores that other libraries have filled, through their own interfaces. Each knows what an import must find in it. */
import { randomBytes } from "node:crypto";
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";
import { CreateTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { Idempotency } from "@node-idempotency/core";
import { RedisStorageAdapter } from "@node-idempotency/storage-adapter-redis";
import { DatabaseSync } from "@photostructure/sqlite";
import mysql from "mysql2/promise";
import pg from "pg";
import { createClient } from "redis";
import {
  IdempotencyManager,
  type IdempotencyStore,
  MySqlIdempotencyStore,
  PostgresIdempotencyStore,
  RedisIdempotencyStore,
  SqliteIdempotencyStore,
} from "steadykey";

/** A store that a library has filled. */
export interface FilledStore {
  /** The words after `nevertwice import`. */
  readonly words: readonly string[];
  /** The operation and the key under which each is found after the import. */
  readonly operation: string;
  readonly keys: readonly string[];
}

/** How many calls of a library run at once while it fills its store. */
const AT_ONCE = 50;
export const TTL_SECONDS = 7_200;

export const unique = (): string => randomBytes(4).toString("hex");
const names = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `order-${index}`);

/** What the work returned for a key. */
export const receiptFor = (key: string) => ({ receipt: `r-${key}`, amount: 4_200, tags: ["é", null] });

async function forEach(
  keys: readonly string[],
  work: (key: string) => Promise<unknown>,
  atOnce = AT_ONCE,
): Promise<void> {
  const waiting = [...keys];
  const one = async () => {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) await work(key);
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

export interface SteadykeyOptions {
  readonly keyPrefix?: string;
  readonly storeCanonicalPayload?: boolean;
}

/** A manager as its users make it. */
export function steadykeyManager(
  store: IdempotencyStore,
  options: SteadykeyOptions = {},
): IdempotencyManager {
  return new IdempotencyManager(store, {
    namespace: "charge: €",
    defaultTtlSeconds: TTL_SECONDS,
    ...options,
  });
}

async function fillSteadykey(
  manager: IdempotencyManager,
  count: number,
  atOnce = AT_ONCE,
): Promise<Omit<FilledStore, "words">> {
  const keys = names(count);
  const execute = (key: string) =>
    manager.execute({ order: key }, async () => receiptFor(key), { idempotencyKey: key });
  await forEach(keys, execute, atOnce);
  return { operation: "charge: €", keys };
}

export function steadykeySqlite(file: string): { readonly store: IdempotencyStore; close(): void } {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  const store = new SqliteIdempotencyStore({
    exec: (sql) => database.exec(sql),
    run: (sql, values) => database.prepare(sql).run(...(values as string[])) as { changes: number },
    get: <T>(sql: string, values?: unknown) => database.prepare(sql).get(...(values as string[])) as T,
  });
  return { store, close: () => database.close() };
}

export async function steadykeyInSqlite(file: string, count: number): Promise<FilledStore> {
  const { store, close } = steadykeySqlite(file);
  const filled = await fillSteadykey(steadykeyManager(store), count);
  close();
  return { ...filled, words: [file, "--from", "steadykey"] };
}

export async function steadykeyInPostgres(url: string, count: number): Promise<FilledStore> {
  const table = `steadykey_${unique()}`;
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  const store = new PostgresIdempotencyStore(pool as never, { tableName: table });
  const filled = await fillSteadykey(steadykeyManager(store), count);
  await pool.end();
  return { ...filled, words: [withParameter(url, "table", table), "--from", "steadykey"] };
}

export async function steadykeyInMysql(url: string, count: number): Promise<FilledStore> {
  const table = `steadykey_${unique()}`;
  const pool = mysql.createPool(url);
  const store = new MySqlIdempotencyStore(pool as never, { tableName: table });
  // Its statements deadlock with each other on MariaDB, and it does not repeat them.
  const filled = await fillSteadykey(steadykeyManager(store), count, 1);
  await pool.end();
  return { ...filled, words: [withParameter(url, "table", table), "--from", "steadykey"] };
}

export async function steadykeyInRedis(url: string, count: number): Promise<FilledStore> {
  const keyPrefix = `steady:${unique()}`;
  const client = createClient({ url });
  await client.connect();
  const store = new RedisIdempotencyStore(client as never);
  const filled = await fillSteadykey(steadykeyManager(store, { keyPrefix }), count);
  client.destroy();
  return { ...filled, words: [url, "--from", "steadykey", "--prefix", keyPrefix] };
}

/** Driven as its plugins drive it. */
export async function nodeIdempotencyInRedis(url: string, count: number): Promise<FilledStore> {
  const cacheKeyPrefix = `node-idempotency-${unique()}`;
  const adapter = new RedisStorageAdapter({ url });
  await adapter.connect();
  const idempotency = new Idempotency(adapter, { cacheKeyPrefix, cacheTTLMS: TTL_SECONDS * 1_000 });
  const keys = names(count);
  await forEach(keys, async (key) => {
    const request = {
      headers: { "Idempotency-Key": key },
      method: "POST",
      path: "/payments?verbose=1",
      body: { order: key },
    };
    if ((await idempotency.onRequest(request)) !== undefined) throw new Error(`${key} was there before`);
    await idempotency.onResponse(request, { body: receiptFor(key), additional: { statusCode: 201 } });
  });
  await adapter.disconnect();
  return {
    words: [url, "--from", "node-idempotency", "--prefix", cacheKeyPrefix],
    operation: "POST /payments",
    keys,
  };
}

type Layer = DynamoDBPersistenceLayer | CachePersistenceLayer;

async function fillPowertools(
  persistenceStore: Layer,
  keyPrefix: string,
  count: number,
): Promise<readonly string[]> {
  const config = new IdempotencyConfig({ expiresAfterSeconds: TTL_SECONDS, eventKeyJmesPath: "id" });
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 600_000 } as never);
  const charge = makeIdempotent(async (order: { readonly id: string }) => receiptFor(order.id), {
    persistenceStore,
    config,
    keyPrefix,
  });
  const keys = names(count);
  await forEach(keys, (id) => charge({ id }));
  return keys;
}

export async function powertoolsInRedis(url: string, count: number): Promise<FilledStore> {
  const operation = `charge-${unique()}`;
  const client = createClient({ url });
  await client.connect();
  const keys = await fillPowertools(new CachePersistenceLayer({ client: client as never }), operation, count);
  client.destroy();
  return { words: [url, "--from", "powertools", "--prefix", operation], operation, keys };
}

/** The credentials of an emulator. */
export const AWS = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };

export async function powertoolsInDynamodb(endpoint: string, count: number): Promise<FilledStore> {
  const tableName = `idempotency-${unique()}`;
  const client = new DynamoDBClient({
    endpoint,
    region: "eu-west-1",
    credentials: { accessKeyId: AWS.AWS_ACCESS_KEY_ID, secretAccessKey: AWS.AWS_SECRET_ACCESS_KEY },
  });
  await client.send(
    new CreateTableCommand({
      TableName: tableName,
      KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
      AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
      BillingMode: "PAY_PER_REQUEST",
    }),
  );
  const layer = new DynamoDBPersistenceLayer({ tableName, awsSdkV3Client: client });
  const keys = await fillPowertools(layer, "charge", count);
  client.destroy();
  const source = `dynamodb://eu-west-1/${tableName}?endpoint=${encodeURIComponent(endpoint)}`;
  return { words: [source, "--from", "powertools"], operation: "charge", keys };
}

function withParameter(url: string, name: string, value: string): string {
  return `${url}${url.includes("?") ? "&" : "?"}${name}=${value}`;
}
