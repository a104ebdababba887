/** A store by its URL, with a client of its own: for servers, scripts, and whoever configures by environment. */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isBoolean, isText } from "../core/policy.ts";
import type { Store } from "../core/store.ts";
import { importDriver } from "./open/driver.ts";

export interface OpenStoreOptions {
  /** Whether to create or upgrade the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean;
}

/** What a URL says, taken apart. Errors show `shown`, which has no password in it. */
interface Address {
  readonly url: string;
  readonly shown: string;
  /** Parameters of ours, taken out of the URL; all others are the driver's. */
  take(name: string): string | undefined;
  /** The URL without what was taken. */
  rest(): string;
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
  const scheme = /^([a-z+]+):/.exec(url)?.[1] ?? "";
  const open = Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined;
  if (open === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      `${withoutSecrets(url)} is no store's URL: it must begin with ${Object.keys(SCHEMES).join(":, ")}:`,
    );
  }
  return open(addressOf(url), options);
}

async function openMemory(): Promise<Store> {
  const { memoryStore } = await import("./memory.ts");
  return memoryStore();
}

async function openSqlite(address: Address): Promise<Store> {
  const { sqliteStore } = await import("./sqlite.ts");
  const synchronous = oneOf(address, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(address, "exclusive");
  const file = decodeURIComponent(address.rest().replace(/^sqlite:(\/\/(?=\/))?/, ""));
  if (file === "" || file.includes("?")) throw wrong(address, "names no file: sqlite:./nevertwice.db");
  return sqliteStore({
    file,
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

interface PgModule {
  readonly default: {
    readonly Pool: new (config: object) => PgPool;
    readonly Client: new (config: object) => PgClient;
  };
}
type PostgresOptions = Parameters<typeof import("./postgres.ts").postgresStore>[0];
type PgPool = PostgresOptions["client"] & Emitter & { end(): Promise<void> };
type PgClient = Emitter & { connect(): Promise<unknown>; end(): Promise<void> };
interface Emitter {
  on(event: "error", listener: () => void): unknown;
}

async function openPostgres(address: Address, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { postgresStore } = await import("./postgres.ts");
  const { default: pg } = await importDriver<PgModule>("pg", "pg", address.shown);
  const prepare = flag(address, "prepare");
  const connectionString = serverUrl(address);
  const client = tolerant(new pg.Pool({ connectionString }));
  const subscriber = async () => {
    const connection = tolerant(new pg.Client({ connectionString }));
    await connection.connect();
    return connection;
  };
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
  return redisStoreOn(new Redis(serverUrl(address), {}), ours);
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
  return redisStoreOn(new Cluster(nodes, { redisOptions }), ours);
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
  const store = redisStore({ client: tolerant(client), subscriber, ...ours });
  return opened(store, () => {
    subscriber.disconnect();
    client.disconnect();
  });
}

interface Mysql2Module {
  createPool(config: object): MysqlPool;
}
type MysqlPool = Parameters<typeof import("./mysql.ts").mysqlStore>[0]["client"] & { end(): Promise<void> };

async function openMysql(address: Address, { migrate = true }: OpenStoreOptions): Promise<Store> {
  const { mysqlStore } = await import("./mysql.ts");
  const mysql = await importDriver<Mysql2Module>("mysql2/promise", "mysql2", address.shown);
  const client = mysql.createPool({ uri: serverUrl(address) });
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

/** The store with its own client: ready to use, and closed with it. */
async function opened(
  store: Store,
  end: () => unknown,
  migrate: (() => Promise<void>) | false = false,
): Promise<Store> {
  const close = async () => {
    await store.close();
    await end();
  };
  try {
    if (migrate) await migrate();
  } catch (error) {
    await close().catch(() => {});
    throw error;
  }
  // With its getters as they are: what a store can say of itself may change.
  return Object.defineProperties({} as Store, {
    ...Object.getOwnPropertyDescriptors(store),
    close: { value: close, enumerable: true },
  });
}

/** A connection that breaks is told to the call that needs it; as an event that nobody hears it would end the process. */
function tolerant<T extends Emitter>(client: T): T {
  client.on("error", () => {});
  return client;
}

function addressOf(url: string): Address {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  return {
    url,
    shown: withoutSecrets(url),
    take(name) {
      const value = parameters.get(name);
      parameters.delete(name);
      return value ?? undefined;
    },
    rest: () => (parameters.size === 0 ? path : `${path}?${parameters}`),
  };
}

/** The URL for the driver, whose own error about a malformed one would tell all of it. */
function serverUrl(address: Address): string {
  const url = address.rest();
  if (URL.canParse(url)) return url;
  throw wrong(address, "is malformed; what is special in a user or password is written %40, %2F, %3F, %23");
}

/** The scheme and the host: what is enough to tell which URL it was. A password may hold what it should not, raw. */
function withoutSecrets(url: string): string {
  const shown = url.replace(/\/\/.*@/s, "//…@").replace(/\?.*$/s, "");
  return JSON.stringify(shown.includes("@") && !shown.includes("//") ? shown.replace(/:.*$/s, ":…") : shown);
}

function flag(address: Address, name: string): boolean | undefined {
  const value = oneOf(address, name, ["true", "false"] as const);
  return value === undefined ? undefined : value === "true";
}

function oneOf<const T extends string>(address: Address, name: string, allowed: readonly T[]): T | undefined {
  const value = address.take(name);
  if (value === undefined || allowed.includes(value as T)) return value as T | undefined;
  throw wrong(address, `has ${name}=${value}; it must be ${allowed.join(" or ")}`);
}

function wrong(address: Address, what: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${address.shown} ${what}.`);
}
