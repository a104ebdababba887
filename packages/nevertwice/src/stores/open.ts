/** Opens a store by its URL, together with its client: for servers, scripts, and configuration by environment variables. */
import { checkOptions, isBoolean, isText } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";
import { type Emitter, mysqlPool, opened, postgresClients, tolerant } from "./open/clients.ts";
import { importDriver } from "./open/driver.ts";
import {
  byScheme,
  flag,
  oneOf,
  parseStoreUrl,
  type StoreUrl,
  serverUrl,
  sqliteFile,
  urlError,
} from "./open/store-url.ts";

export interface OpenStoreOptions {
  /** Whether to create or migrate the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean;
}

type StoreOpener = (url: StoreUrl, options: OpenStoreOptions) => Promise<Store>;

const SCHEMES: Readonly<Record<string, StoreOpener>> = {
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
 * `mysql://…` or `dynamodb://region/table`. Loads the driver now, but connects with the first call, or here if it migrates
 * tables. Closing the store closes its client too.
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  checkOptions(options, { migrate: isBoolean });
  isText("the store's URL", url);
  return byScheme(SCHEMES, url, "store")(parseStoreUrl(url), options);
}

async function openMemory(): Promise<Store> {
  const { memoryStore } = await import("./memory.ts");
  return memoryStore();
}

async function openSqlite(url: StoreUrl): Promise<Store> {
  const { sqliteStore } = await import("./sqlite.ts");
  const synchronous = oneOf(url, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(url, "exclusive");
  return sqliteStore({
    file: sqliteFile(url),
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

type PostgresOptions = Parameters<typeof import("./postgres.ts").postgresStore>[0];

async function openPostgres(url: StoreUrl, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { postgresStore } = await import("./postgres.ts");
  const prepare = flag(url, "prepare");
  const { pool: client, connect: subscriber } = await postgresClients(url);
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

/**
 * A firewall can drop a connection without informing either side. If a connection owes an answer and is silent for this
 * long, the client replaces it and sends the calls again. The timeout is the same as the default `storeTimeoutMs` of a guard.
 */
const REDIS_CONNECTION = { socketTimeout: 5_000, keepAlive: 30_000 };

async function openRedis(url: StoreUrl): Promise<Store> {
  const { Redis } = await importDriver<IoredisModule>("ioredis", "ioredis", url.shown);
  const ours = redisParameters(url);
  return redisStoreOn(tolerant(new Redis(serverUrl(url), REDIS_CONNECTION)), ours);
}

async function openRedisCluster(url: StoreUrl): Promise<Store> {
  const { Cluster } = await importDriver<IoredisModule>("ioredis", "ioredis", url.shown);
  const ours = redisParameters(url);
  const parsed = /^(rediss?)\+cluster:\/\/(?:([^:@]*)(?::([^@]*))?@)?([^/?@]+)\/?$/.exec(url.rest());
  if (parsed === null)
    throw urlError(
      url,
      "is not the URL of a cluster; expected redis+cluster://user:password@host:7000,host:7001",
    );
  const [, scheme, username, password, hosts = ""] = parsed;
  const redisOptions = {
    ...REDIS_CONNECTION,
    ...(username && { username: decodeURIComponent(username) }),
    ...(password !== undefined && { password: decodeURIComponent(password) }),
    ...(scheme === "rediss" && { tls: {} }),
  };
  const nodes = hosts.split(",").map((host) => `${scheme}://${host}`);
  return redisStoreOn(tolerant(new Cluster(nodes, { redisOptions })), ours);
}

function redisParameters(url: StoreUrl): Pick<RedisOptions, "prefix" | "replicas"> {
  const prefix = url.take("prefix");
  const replicas = url.take("replicas");
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
  const end = () => {
    subscriber.disconnect();
    client.disconnect();
  };
  try {
    return await opened(redisStore({ client, subscriber, ...ours }), end);
  } catch (error) {
    end();
    throw error;
  }
}

async function openMysql(url: StoreUrl, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { mysqlStore } = await import("./mysql.ts");
  const client = await mysqlPool(url);
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

async function openDynamodb(url: StoreUrl): Promise<Store> {
  const { dynamodbStore } = await import("./dynamodb.ts");
  const install = "@aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb";
  const { DynamoDBClient } = await importDriver<DynamoModule>("@aws-sdk/client-dynamodb", install, url.shown);
  const { DynamoDBDocumentClient } = await importDriver<DynamoDocumentModule>(
    "@aws-sdk/lib-dynamodb",
    install,
    url.shown,
  );
  const endpoint = url.take("endpoint");
  const [, region, table] = /^dynamodb:\/\/([\w-]+)\/([\w.-]+)$/.exec(url.rest()) ?? [];
  if (region === undefined || table === undefined)
    throw urlError(url, "names no table; expected dynamodb://eu-west-1/nevertwice");
  const client = new DynamoDBClient({ region, ...(endpoint !== undefined && { endpoint }) });
  const store = dynamodbStore({ client: DynamoDBDocumentClient.from(client), table });
  return opened(store, () => client.destroy());
}
