/** Creates the client of a store from its URL, and closes it with the store. */
import type { MysqlClient } from "../mysql/client.ts";
import type { PgPool } from "../postgres/client.ts";
import { importDriver } from "./driver.ts";
import {
  type ConnectionParameters,
  connectionParameters,
  MYSQL,
  POSTGRES,
  refuseUnknown,
} from "./parameters.ts";
import { flag, parseStoreUrl, type StoreUrl, serverUrl, urlError } from "./store-url.ts";

export interface Emitter {
  on(event: "error", listener: () => void): unknown;
}

interface PgModule {
  readonly default: {
    readonly Pool: new (config: object) => OpenedPgPool;
    readonly Client: new (config: object) => ConnectedPgClient;
  };
}
type OpenedPgPool = PgPool & Emitter & { end(): Promise<void> };
type ConnectedPgClient = Emitter & { connect(): Promise<unknown>; end(): Promise<void> };

export interface PostgresClients {
  readonly pool: OpenedPgPool;
  /** Connects one more client for LISTEN: to the URL of the parameter `subscriber`, or to the same server. */
  connect(): Promise<ConnectedPgClient>;
  /** What the URL says about prepared statements. */
  readonly prepare: boolean | undefined;
}

export async function postgresClients(url: StoreUrl): Promise<PostgresClients> {
  const prepare = flag(url, "prepare");
  const listening = url.take("subscriber");
  const parameters = connectionParameters(url);
  refuseUnknown(url, POSTGRES);
  const { default: pg } = await importDriver<PgModule>("pg", "pg", url.shown);
  const config = { connectionString: serverUrl(url), ...pgConfig(parameters) };
  const listener = listening === undefined ? config : subscriberConfig(listening, parameters);
  return {
    pool: tolerant(new pg.Pool(config)),
    async connect() {
      const connection = tolerant(new pg.Client(listener));
      await connection.connect();
      return connection;
    },
    prepare,
  };
}

function pgConfig({
  poolSize,
  connectTimeoutMs,
  idleTimeoutMs,
  applicationName,
}: ConnectionParameters): object {
  return {
    // A server that is switched off does not refuse connections, and a network device can drop idle ones silently.
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    // Only if neither the URL nor PGAPPNAME names the application.
    fallback_application_name: "nevertwice",
    ...(poolSize !== undefined && { max: poolSize }),
    ...(idleTimeoutMs !== undefined && { idleTimeoutMillis: idleTimeoutMs }),
    ...(applicationName !== undefined && { application_name: applicationName }),
  };
}

/** A pooler such as PgBouncer in transaction mode passes on no notifications, so LISTEN needs a URL behind it. */
function subscriberConfig(text: string, parameters: ConnectionParameters): object {
  const url = parseStoreUrl(text);
  if (!/^postgres(ql)?:\/\//.test(text))
    throw urlError(
      url,
      "is not a Postgres URL, and subscriber must be one, encoded as by encodeURIComponent",
    );
  refuseUnknown(url, { ...POSTGRES, ours: [] });
  return { connectionString: serverUrl(url), ...pgConfig(parameters) };
}

interface Mysql2Module {
  createPool(config: object): MysqlPool;
}
type MysqlPool = MysqlClient & { end(): Promise<void> };

export async function mysqlPool(url: StoreUrl): Promise<MysqlPool> {
  const { poolSize, connectTimeoutMs, idleTimeoutMs, applicationName } = connectionParameters(url);
  refuseUnknown(url, MYSQL);
  const mysql = await importDriver<Mysql2Module>("mysql2/promise", "mysql2", url.shown);
  return mysql.createPool({
    uri: serverUrl(url),
    // A server that is switched off does not refuse connections, so there must be a limit.
    connectTimeout: connectTimeoutMs,
    ...(poolSize !== undefined && { connectionLimit: poolSize }),
    ...(idleTimeoutMs !== undefined && { idleTimeout: idleTimeoutMs }),
    connectAttributes: { program_name: applicationName ?? "nevertwice" },
  });
}

/** Migrates the store if necessary. The returned store also closes its client when it is closed. */
export async function opened<T extends { close(): Promise<void> }>(
  store: T,
  end: () => unknown,
  migrate: (() => Promise<void>) | false = false,
): Promise<T> {
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
  // Copies the getters themselves, since their values may change.
  return Object.defineProperties({} as T, {
    ...Object.getOwnPropertyDescriptors(store),
    close: { value: close, enumerable: true },
  });
}

/** Ignores `error` events, which would end the process. The call that needs the connection reports the error. */
export function tolerant<T extends Emitter>(client: T): T {
  client.on("error", () => {});
  return client;
}
