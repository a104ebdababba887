/** A store by its URL, with a client of its own: for servers, scripts, and whoever configures by environment. */
import { checkOptions, isBoolean, isText } from "../core/policy.ts";
import type { Store } from "../core/store.ts";
import {
  type Address,
  addressOf,
  byScheme,
  flag,
  oneOf,
  serverUrl,
  sqliteFile,
  wrong,
} from "./open/address.ts";
import { type Emitter, mysqlPool, opened, postgresClients, tolerant } from "./open/clients.ts";
import { importDriver } from "./open/driver.ts";

export interface OpenStoreOptions {
  /** Whether to create or upgrade the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean;
}

type Open = (address: Address, options: OpenStoreOptions) => Promise<Store>;

const SCHEMES: Readonly<Record<string, Open>> = {
  memory: openMemory,
  sqlite: openSqlite,
  postgres: openPostgres,
  postgresql: openPostgres,
  redis: openRedis,
  rediss: openRedis,
  "redis+cluster": openRedisCluster,
  "rediss+cluster": openRedisCluster,
  mysql: openMysql,
  dynamodb: openDynamodb,
};

/**
 * Opens `memory:`, `sqlite:./file.db`, `postgres://…`, `redis://…`, `rediss://…`, `redis+cluster://host,host`,
 * `mysql://…` or `dynamodb://region/table`. The driver is loaded now; the server is first asked by the first call, or
 * here where tables are migrated. Closing the store closes its client too.
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  checkOptions(options, { migrate: isBoolean });
  isText("the store's URL", url);
  return byScheme(SCHEMES, url, "store's")(addressOf(url), options);
}

async function openMemory(): Promise<Store> {
  const { memoryStore } = await import("./memory.ts");
  return memoryStore();
}

async function openSqlite(address: Address): Promise<Store> {
  const { sqliteStore } = await import("./sqlite.ts");
  const synchronous = oneOf(address, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(address, "exclusive");
  return sqliteStore({
    file: sqliteFile(address),
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

type PostgresOptions = Parameters<typeof import("./postgres.ts").postgresStore>[0];

async function openPostgres(address: Address, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { postgresStore } = await import("./postgres.ts");
  const prepare = flag(address, "prepare");
  const { pool: client, connect: subscriber } = await postgresClients(address);
  const store = postgresStore({
    client,
    subscriber: subscriber as unknown as NonNullable<PostgresOptions["subscriber"]>,
    ...(prepare !== undefined && { prepare }),
  });
  return opened(store, () => client.end(), migrate && store.migrate);
}

interface IoredisModule {
  readonly Redis: new (url: string, options: object) => Ioredis;
  readonly Cluster: new (nodes: readonly string[], options: object) => Ioredis;
}
type RedisOptions = Parameters<typeof import("./redis.ts").redisStore>[0];
type Ioredis = RedisOptions["client"] & Emitter & { duplicate(): Ioredis; disconnect(): void };

async function openRedis(address: Address): Promise<Store> {
  const { Redis } = await importDriver<IoredisModule>("ioredis", "ioredis", address.shown);
  const ours = redisParameters(address);
  return redisStoreOn(tolerant(new Redis(serverUrl(address), {})), ours);
}

async function openRedisCluster(address: Address): Promise<Store> {
  const { Cluster } = await importDriver<IoredisModule>("ioredis", "ioredis", address.shown);
  const ours = redisParameters(address);
  const parsed = /^(rediss?)\+cluster:\/\/(?:([^:@]*)(?::([^@]*))?@)?([^/?@]+)\/?$/.exec(address.rest());
  if (parsed === null)
    throw wrong(address, "is no cluster's URL: redis+cluster://user:password@host:7000,host:7001");
  const [, scheme, username, password, hosts = ""] = parsed;
  const redisOptions = {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password !== undefined && { password: decodeURIComponent(password) }),
    ...(scheme === "rediss" && { tls: {} }),
  };
  const nodes = hosts.split(",").map((host) => `${scheme}://${host}`);
  return redisStoreOn(tolerant(new Cluster(nodes, { redisOptions })), ours);
}

function redisParameters(address: Address): Pick<RedisOptions, "prefix" | "replicas"> {
  const prefix = address.take("prefix");
  const replicas = address.take("replicas");
  return {
    ...(prefix !== undefined && { prefix }),
    ...(replicas !== undefined && { replicas: Number(replicas) }),
  };
}

async function redisStoreOn(
  client: Ioredis,
  ours: Pick<RedisOptions, "prefix" | "replicas">,
): Promise<Store> {
  const { redisStore } = await import("./redis.ts");
  const subscriber = tolerant(client.duplicate());
  const store = redisStore({ client, subscriber, ...ours });
  return opened(store, () => {
    subscriber.disconnect();
    client.disconnect();
  });
}

async function openMysql(address: Address, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { mysqlStore } = await import("./mysql.ts");
  const client = await mysqlPool(address);
  const store = mysqlStore({ client });
  return opened(store, () => client.end(), migrate && store.migrate);
}

interface DynamoModule {
  readonly DynamoDBClient: new (config: object) => { destroy(): void };
}
type DynamoOptions = Parameters<typeof import("./dynamodb.ts").dynamodbStore>[0];
interface DynamoDocumentModule {
  readonly DynamoDBDocumentClient: { from(client: object): DynamoOptions["client"] };
}

async function openDynamodb(address: Address): Promise<Store> {
  const { dynamodbStore } = await import("./dynamodb.ts");
  const install = "@aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb";
  const { DynamoDBClient } = await importDriver<DynamoModule>(
    "@aws-sdk/client-dynamodb",
    install,
    address.shown,
  );
  const { DynamoDBDocumentClient } = await importDriver<DynamoDocumentModule>(
    "@aws-sdk/lib-dynamodb",
    install,
    address.shown,
  );
  const endpoint = address.take("endpoint");
  const [, region, table] = /^dynamodb:\/\/([\w-]+)\/([\w.-]+)$/.exec(address.rest()) ?? [];
  if (region === undefined || table === undefined)
    throw wrong(address, "names no table: dynamodb://eu-west-1/nevertwice");
  const client = new DynamoDBClient({ region, ...(endpoint !== undefined && { endpoint }) });
  const store = dynamodbStore({ client: DynamoDBDocumentClient.from(client), table });
  return opened(store, () => client.destroy());
}
