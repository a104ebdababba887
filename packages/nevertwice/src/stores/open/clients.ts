/** Creates the client of a store from its URL, and closes it with the store. */
import type { MysqlClient } from "../mysql/client.ts";
import type { PgPool } from "../postgres/client.ts";
import { importDriver } from "./driver.ts";
import { type StoreUrl, serverUrl } from "./store-url.ts";

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

/** How long to wait for a new or a free connection. */
const CONNECT_MS = 5_000;

/** A pool, and a function that connects one more client to the same server. */
export async function postgresClients(
  url: StoreUrl,
): Promise<{ readonly pool: OpenedPgPool; connect(): Promise<ConnectedPgClient> }> {
  const { default: pg } = await importDriver<PgModule>("pg", "pg", url.shown);
  // A server that is switched off does not refuse connections, and a network device can drop idle ones silently.
  const config = {
    connectionString: serverUrl(url),
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
  };
  return {
    pool: tolerant(new pg.Pool(config)),
    async connect() {
      const connection = tolerant(new pg.Client(config));
      await connection.connect();
      return connection;
    },
  };
}

interface Mysql2Module {
  createPool(config: object): MysqlPool;
}
type MysqlPool = MysqlClient & { end(): Promise<void> };

/** How long to wait for a new connection. */
const MYSQL_CONNECT_MS = 5_000;

export async function mysqlPool(url: StoreUrl): Promise<MysqlPool> {
  const mysql = await importDriver<Mysql2Module>("mysql2/promise", "mysql2", url.shown);
  // A server that is switched off does not refuse connections, so there must be a limit.
  return mysql.createPool({ uri: serverUrl(url), connectTimeout: MYSQL_CONNECT_MS });
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
