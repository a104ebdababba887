/** Opens a store by its URL, together with its client: for servers, scripts, and configuration by environment variables. */
import { checkOptions, isBoolean, isText } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";
import { type Emitter, mysqlPool, opened, postgresClients, tolerant } from "./open/clients.ts";
import { importDriver } from "./open/driver.ts";
import { connectionParameters, REDIS, refuseUnknown, SQLITE, wholeNumber } from "./open/parameters.ts";
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
import { upstashClient } from "./open/upstash.ts";

export { importDriver } from "./open/driver.ts";

/** Options of `openStore`. */
export interface OpenStoreOptions {
  /**
   * Whether to create or migrate the tables of Postgres and MySQL first.
   * @default true
   */
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
  etcd: openEtcd,
  etcds: openEtcd,
  upstash: openUpstash,
  "upstash+http": openUpstash,
};

/** Bindings of Cloudflare exist only inside a Worker, and no URL can name them. */
const BINDINGS: Readonly<Record<string, string>> = {
  d1: "d1Store(env.DB) of nevertwice/stores/d1",
  "durable-objects": "durableObjectStore(env.NEVERTWICE) of nevertwice/stores/durable-objects",
};

/**
 * Opens `memory:`, `sqlite:./file.db`, `postgres://…`, `redis://…`, `rediss://…`, `redis+cluster://host,host`,
 * `mysql://…`, `dynamodb://region/table`, `etcd://host:2379,host:2379/prefix`, `etcds://…` or `upstash://TOKEN@host`. Loads the driver now, but connects with the first call, or here if it migrates
 * tables. Closing the store closes its client too.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const guard = createGuard({ store: await openStore("memory:") }); // or sqlite:, redis:, postgres:, mysql:, etcd:
 * await guard.close();
 * ```
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  checkOptions(options, { migrate: isBoolean });
  isText("the store's URL", url);
  const binding = BINDINGS[url.split(":", 1)[0] as string];
  if (binding !== undefined)
    throw urlError(parseStoreUrl(url), `names a binding, which has no URL; in the Worker, use ${binding}`);
  return byScheme(SCHEMES, url, "store")(parseStoreUrl(url), options);
}

async function openMemory(url: StoreUrl): Promise<Store> {
  refuseUnknown(url, { ours: [] });
  const { memoryStore } = await import("./memory.ts");
  return memoryStore();
}

async function openSqlite(url: StoreUrl): Promise<Store> {
  const { sqliteStore } = await import("./sqlite.ts");
  const synchronous = oneOf(url, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(url, "exclusive");
  refuseUnknown(url, SQLITE);
  return sqliteStore({
    file: sqliteFile(url),
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

type PostgresOptions = Parameters<typeof import("./postgres.ts").postgresStore>[0];

async function openPostgres(url: StoreUrl, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { postgresStore } = await import("./postgres.ts");
  const { pool: client, connect: subscriber, prepare } = await postgresClients(url);
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
const REDIS_CONNECTION = {
  socketTimeout: 5_000,
  keepAlive: 30_000,
  // The host name may lead to another master by now.
  reconnectOnError: ({ message }: Error) => message.includes("READONLY"),
};

async function openRedis(url: StoreUrl): Promise<Store> {
  const { connection, ...ours } = redisParameters(url);
  const { Redis } = await importDriver<IoredisModule>("ioredis", "ioredis", url.shown);
  return redisStoreOn(tolerant(new Redis(serverUrl(url), connection)), ours);
}

async function openRedisCluster(url: StoreUrl): Promise<Store> {
  const { connection, ...ours } = redisParameters(url);
  const { Cluster } = await importDriver<IoredisModule>("ioredis", "ioredis", url.shown);
  const parsed = /^(rediss?)\+cluster:\/\/(?:([^:@]*)(?::([^@]*))?@)?([^/?@]+)\/?$/.exec(url.rest());
  if (parsed === null)
    throw urlError(
      url,
      "is not the URL of a cluster; expected redis+cluster://user:password@host:7000,host:7001",
    );
  const [, scheme, username, password, hosts = ""] = parsed;
  const redisOptions = {
    ...connection,
    ...(username && { username: decodeURIComponent(username) }),
    ...(password !== undefined && { password: decodeURIComponent(password) }),
    ...(scheme === "rediss" && { tls: {} }),
  };
  const nodes = hosts.split(",").map((host) => `${scheme}://${host}`);
  return redisStoreOn(tolerant(new Cluster(nodes, { redisOptions, shardedSubscribers: true })), ours);
}

type RedisParameters = Pick<RedisOptions, "prefix" | "replicas"> & { readonly connection: object };

function redisParameters(url: StoreUrl): RedisParameters {
  const prefix = url.take("prefix");
  const replicas = wholeNumber(url, "replicas");
  const { connectTimeoutMs, applicationName } = connectionParameters(url);
  refuseUnknown(url, REDIS);
  return {
    ...(prefix !== undefined && { prefix }),
    ...(replicas !== undefined && { replicas }),
    connection: {
      ...REDIS_CONNECTION,
      connectTimeout: connectTimeoutMs,
      ...(applicationName !== undefined && { connectionName: applicationName }),
    },
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
  const readFirst = flag(url, "readFirst");
  refuseUnknown(url, { ours: ["endpoint", "readFirst"] });
  const [, region, table] = /^dynamodb:\/\/([\w-]+)\/([\w.-]+)$/.exec(url.rest()) ?? [];
  if (region === undefined || table === undefined)
    throw urlError(url, "names no table; expected dynamodb://eu-west-1/nevertwice");
  const client = new DynamoDBClient({ region, ...(endpoint !== undefined && { endpoint }) });
  const document = DynamoDBDocumentClient.from(client);
  const store = dynamodbStore({ client: document, table, ...(readFirst !== undefined && { readFirst }) });
  return opened(store, () => client.destroy());
}

async function openUpstash(url: StoreUrl): Promise<Store> {
  const { upstashStore } = await import("./upstash.ts");
  const prefix = url.take("prefix");
  refuseUnknown(url, { ours: ["prefix"] });
  return upstashStore({ client: await upstashClient(url), ...(prefix !== undefined && { prefix }) });
}

/** The members with their ports, and after a slash the prefix of the keys. `etcds` is for members with TLS. */
const ETCD_URL = /^etcd(s?):\/\/(?:([^:@/]+):([^@/]*)@)?([^/?@]+)\/?([^?]*)$/;

async function openEtcd(url: StoreUrl): Promise<Store> {
  const { etcdStore } = await import("./etcd.ts");
  const clockSkewMs = url.take("clockSkewMs");
  refuseUnknown(url, { ours: ["clockSkewMs"] });
  const [, secure = "", user, password, hosts = "", prefix = ""] = ETCD_URL.exec(url.rest()) ?? [];
  const endpoints = hosts.split(",").map((host) => `http${secure}://${host}`);
  if (hosts === "" || !endpoints.every((endpoint) => URL.canParse(endpoint)))
    throw urlError(
      url,
      "is not the URL of a cluster; expected etcd://user:password@host:2379,host:2379/prefix",
    );
  return etcdStore({
    endpoints,
    ...(prefix !== "" && { prefix: decodeURIComponent(prefix) }),
    ...(user !== undefined && {
      user: decodeURIComponent(user),
      password: decodeURIComponent(password ?? ""),
    }),
    ...(clockSkewMs !== undefined && { clockSkewMs: Number(clockSkewMs) }),
  });
}
